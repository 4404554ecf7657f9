//! What a flight costs, and the invoice that it is added to. Pure; in integer cents.
//!
//! * A flight that departed costs 12 cents for each mile and 35 for each seat, times 5/4, rounded
//!   half up, where it was scheduled at night: in hour 22 or later, or before 6. A cancelled flight
//!   costs nothing, and is counted.
//! * An aircraft that is not listed, or not named, seats 150.
//! * Every departure of an aircraft beyond its 20th for the same carrier in the same month earns a
//!   rebate of 500 cents. A flight whose tail number is absent names no aircraft and earns none.

use serde::Serialize;

use crate::flights::{Carrier, Due, Flight, Month};

/// The seats of an aircraft that is not listed.
pub const SEATS_UNLISTED: u32 = 150;

const CENTS_PER_MILE: u32 = 12;
const CENTS_PER_SEAT: u32 = 35;
const DEPARTURES_WITHOUT_REBATE: u64 = 20;
const CENTS_OF_REBATE: u32 = 500;

/// What one flight adds to an invoice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
#[repr(C)]
pub struct Charge {
    /// When the flight was due.
    pub due: Due,
    /// Of the flight's invoice.
    pub month: Month,
    /// Of what departed.
    pub miles: u32,
    /// Before the rebate.
    pub charge_cents: u32,
    /// What the aircraft's frequency earns.
    pub rebate_cents: u32,
    /// Of the flight's invoice.
    pub carrier: Carrier,
    /// 1 if the flight departed.
    pub flights: u8,
    /// 1 if it was cancelled.
    pub cancelled: u8,
}

impl Charge {
    /// Charges `flight` for an aircraft with `seats` whose departure is the `departure`th (from 1)
    /// of its carrier and tail number in its month. Both are ignored where the flight was
    /// cancelled.
    ///
    /// ```
    /// use overtake_bench::tariff::Charge;
    /// # let text = "\
    /// # year,month,day,dep_time,carrier,tailnum,distance,hour
    /// # 2013,1,31,517,UA,N14228,1400,5
    /// # ";
    /// # let mut rows = csv::Reader::from_reader(text.as_bytes());
    /// # let flight = rows.deserialize().next().unwrap().unwrap();
    /// // 1400 miles in an aircraft of 149 seats, in hour 5: (12 * 1400 + 35 * 149) * 5/4.
    /// assert_eq!(Charge::new(&flight, 149, 1).charge_cents, 27_519);
    /// assert_eq!(Charge::new(&flight, 149, 21).rebate_cents, 500);
    /// ```
    pub fn new(flight: &Flight, seats: u32, departure: u64) -> Charge {
        let none = Charge {
            due: flight.due,
            month: flight.month(),
            miles: 0,
            charge_cents: 0,
            rebate_cents: 0,
            carrier: flight.carrier,
            flights: 0,
            cancelled: 1,
        };
        if !flight.departed {
            return none;
        }
        Charge {
            miles: flight.distance,
            charge_cents: charge_cents(flight, seats),
            rebate_cents: rebate_cents(flight, departure),
            flights: 1,
            cancelled: 0,
            ..none
        }
    }
}

fn charge_cents(flight: &Flight, seats: u32) -> u32 {
    let day = CENTS_PER_MILE * flight.distance + CENTS_PER_SEAT * seats;
    match flight.hour {
        // Rounded half up: floor(x * 5/4 + 1/2).
        22.. | ..6 => (day * 5 + 2) / 4,
        _ => day,
    }
}

fn rebate_cents(flight: &Flight, departure: u64) -> u32 {
    let is_earned = !flight.tail.is_absent() && departure > DEPARTURES_WITHOUT_REBATE;
    if is_earned { CENTS_OF_REBATE } else { 0 }
}

/// What a carrier owes for a month, as far as it is known. Serialised in the order of its fields,
/// it is a line of CSV.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
)]
pub struct Invoice {
    /// Who owes.
    pub carrier: Carrier,
    /// For what month.
    pub month: Month,
    /// How often this invoice was updated, this time included.
    pub version: u64,
    /// Flights that departed.
    pub flights: u64,
    /// Flights that did not.
    pub cancelled: u64,
    /// Of the flights that departed.
    pub miles: u64,
    /// The sum of the charges.
    pub charges_cents: i64,
    /// The sum of the rebates.
    pub rebate_cents: i64,
    /// Charges less rebates; below zero when they exceed them.
    pub total_cents: i64,
    /// When the flight of this update was due; not part of the line.
    #[serde(skip)]
    pub due: Due,
}

impl Invoice {
    /// Updates the invoice with one flight, to its next version. The first one says whose invoice
    /// it is.
    pub fn add(&mut self, charge: &Charge) {
        let key = (charge.carrier, charge.month);
        assert!(
            self.version == 0 || key == (self.carrier, self.month),
            "a charge of another invoice"
        );
        (self.carrier, self.month) = key;
        self.version += 1;
        self.due = charge.due;
        self.flights += u64::from(charge.flights);
        self.cancelled += u64::from(charge.cancelled);
        self.miles += u64::from(charge.miles);
        self.charges_cents += i64::from(charge.charge_cents);
        self.rebate_cents += i64::from(charge.rebate_cents);
        self.total_cents = self.charges_cents - self.rebate_cents;
    }
}

#[cfg(test)]
mod tests;
