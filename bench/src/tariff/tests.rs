use super::*;
use crate::flights::Tail;

fn flight(distance: u32, hour: u8) -> Flight {
    Flight {
        due: Due::default(),
        tail: "N14228".parse().unwrap(),
        distance,
        year: 2013,
        carrier: "UA".parse().unwrap(),
        month: 1,
        day: 31,
        hour,
        departed: true,
    }
}

#[test]
fn a_flight_costs_by_mile_and_seat() {
    let charge = Charge::new(&flight(100, 12), 50, 1);
    assert_eq!(charge.charge_cents, 100 * 12 + 50 * 35);
    assert_eq!((charge.miles, charge.flights, charge.cancelled), (100, 1, 0));
    assert_eq!(charge.rebate_cents, 0);
}

#[test]
fn the_night_costs_a_quarter_more_and_begins_at_22_and_ends_at_6() {
    let hours: Vec<u8> = (0..=24).filter(|&hour| charge_cents(&flight(1, hour), 0) > 12).collect();
    assert_eq!(hours, [0, 1, 2, 3, 4, 5, 22, 23, 24]);
}

#[test]
fn a_quarter_more_is_rounded_half_up() {
    // 12 * miles + 35 * seats is 35, 70, 105, 140: times 5/4 that is 43.75, 87.5, 131.25, 175.
    let cents: Vec<u32> = (1..=4).map(|seats| charge_cents(&flight(0, 23), seats)).collect();
    assert_eq!(cents, [44, 88, 131, 175]);
}

#[test]
fn a_cancelled_flight_costs_nothing_and_is_counted() {
    let cancelled = Flight { departed: false, ..flight(100, 23) };
    let charge = Charge::new(&cancelled, 50, 21);
    assert_eq!((charge.flights, charge.cancelled), (0, 1));
    assert_eq!((charge.miles, charge.charge_cents, charge.rebate_cents), (0, 0, 0));
}

#[test]
fn the_21st_departure_is_the_first_to_earn_a_rebate() {
    let rebates: Vec<u32> = (19..=22).map(|n| rebate_cents(&flight(100, 12), n)).collect();
    assert_eq!(rebates, [0, 0, 500, 500]);
}

#[test]
fn a_departure_without_a_tail_number_earns_no_rebate() {
    let nameless = Flight { tail: Tail::ABSENT, ..flight(100, 12) };
    assert_eq!(rebate_cents(&nameless, 1000), 0);
}

#[test]
fn an_invoice_is_a_line_of_csv_under_its_header() {
    let mut invoice = Invoice::default();
    invoice.add(&Charge::new(&flight(10, 12), 2, 1));
    invoice.add(&Charge::new(&flight(10, 12), 2, 21));
    invoice.add(&Charge::new(&Flight { departed: false, ..flight(10, 12) }, 2, 21));
    let mut csv = csv::Writer::from_writer(Vec::new());
    csv.serialize(invoice).unwrap();
    assert_eq!(
        String::from_utf8(csv.into_inner().unwrap()).unwrap(),
        "carrier,month,version,flights,cancelled,miles,charges_cents,rebate_cents,total_cents\n\
         UA,2013-01,3,2,1,20,380,500,-120\n"
    );
}

#[test]
#[should_panic(expected = "a charge of another invoice")]
fn an_invoice_takes_no_charge_of_another_one() {
    let mut invoice = Invoice::default();
    invoice.add(&Charge::new(&flight(10, 12), 2, 1));
    invoice.add(&Charge::new(&flight(10, 12).later(1), 2, 1));
}
