use overtake_bench::flights::{JANUARY, PLANES};

use super::*;

/// Printed by the awk program below from the two files that ship, unpacked, and sorted:
/// `awk -f bill.awk planes.csv flights-2013-01.csv | sort`.
///
/// ```awk
/// BEGIN { FS = "," }
/// FNR == 1 { next }
/// NR == FNR { seats[$1] = $7; next }
/// { n[$10]++; if ($4 == "" || $4 == "NA") { gone[$10]++; next }
///   s = ($12 in seats) ? seats[$12] : 150; c = 12 * $16 + 35 * s
///   if ($17 >= 22 || $17 < 6) c = int(c * 5 / 4 + 0.5)
///   flown[$10]++; miles[$10] += $16; charges[$10] += c
///   if ($12 != "" && $12 != "NA" && ++d[$10, $12, $2] > 20) rebate[$10] += 500 }
/// END { for (k in n) printf "%s,2013-01,%d,%d,%d,%d,%d,%d,%d\n", k, n[k], flown[k], gone[k],
///   miles[k], charges[k], rebate[k], charges[k] - rebate[k] }
/// ```
const JANUARY_BILL: &str = "\
carrier,month,version,flights,cancelled,miles,charges_cents,rebate_cents,total_cents
9E,2013-01,1573,1498,75,717534,12661658,36500,12625158
AA,2013-01,2794,2735,59,3700495,60179917,39500,60140417
AS,2013-01,62,62,0,148924,2153853,0,2153853
B6,2013-01,4427,4418,9,4693728,79310022,508500,78801522
DL,2013-01,3690,3661,29,4478402,75332379,76500,75255879
EV,2013-01,4171,3989,182,2083094,32951395,245500,32705895
F9,2013-01,59,59,0,95580,1505710,0,1505710
FL,2013-01,328,324,4,223610,3876505,0,3876505
HA,2013-01,31,31,0,154473,2262721,0,2262721
MQ,2013-01,2271,2206,65,1250711,25803092,367000,25436092
OO,2013-01,1,1,0,733,10721,0,10721
UA,2013-01,4637,4605,32,6746943,109690443,36000,109654443
US,2013-01,1602,1555,47,841549,19671659,44000,19627659
VX,2013-01,316,315,1,785964,11435248,0,11435248
WN,2013-01,996,985,11,928940,16003425,0,16003425
YV,2013-01,46,39,7,8931,216372,0,216372
";

fn january(repeat: u16) -> Bill {
    bill(Path::new(PLANES), &[PathBuf::from(JANUARY)], repeat).unwrap()
}

#[test]
fn january_is_billed_as_awk_bills_it() {
    assert_eq!(csv(&january(1)), JANUARY_BILL);
}

#[test]
fn each_repetition_is_billed_alike_and_a_year_later() {
    let (once, thrice) = (january(1), january(3));
    assert_eq!(thrice.len(), 3 * once.len());
    for ((carrier, _), line) in &once {
        for month in ["2013-01", "2014-01", "2015-01"] {
            assert_eq!(thrice[&(carrier.clone(), month.to_string())], *line);
        }
    }
}

#[test]
fn a_file_read_twice_has_aircraft_that_depart_twice_as_often() {
    let input = PathBuf::from(JANUARY);
    let twice = bill(Path::new(PLANES), &[input.clone(), input], 1).unwrap();
    for (key, once) in january(1) {
        let twice = &twice[&key];
        assert_eq!(
            (twice.flights, twice.charges_cents),
            (2 * once.flights, 2 * once.charges_cents)
        );
        assert!(twice.rebate_cents >= 2 * once.rebate_cents);
    }
}
