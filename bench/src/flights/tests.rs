use rkyv::Archive;

use super::*;
use crate::tariff::{Charge, SEATS_UNLISTED};

const HEADERS: &str = "year,month,day,dep_time,sched_dep_time,carrier,tailnum,distance,hour";

/// Reads one row under the headers of the file.
fn flight(row: &str) -> Result<Flight, String> {
    let text = format!("{HEADERS}\n{row}\n");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().next().unwrap().map_err(|error| error.to_string())
}

fn gunzip(path: &str) -> csv::Reader<flate2::read::GzDecoder<std::fs::File>> {
    csv::Reader::from_reader(flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()))
}

#[test]
fn a_row_is_read_by_the_names_of_its_columns() {
    let read = flight("2013,1,2,517,515,UA,N14228,1400,5").unwrap();
    assert_eq!(read.tail, "N14228".parse().unwrap());
    assert_eq!(read.carrier, "UA".parse().unwrap());
    assert_eq!((read.year, read.month, read.day, read.hour), (2013, 1, 2, 5));
    assert_eq!((read.distance, read.departed), (1400, true));
}

#[test]
fn na_and_the_empty_field_mean_absent() {
    for absent in ["", "NA"] {
        let read = flight(&format!("2013,1,2,{absent},515,UA,{absent},1400,5")).unwrap();
        assert!(!read.departed);
        assert!(read.tail.is_absent());
        assert_eq!(read.tail.to_string(), "NA");
    }
}

#[test]
fn a_malformed_value_is_an_error_that_names_its_column_and_what_it_may_be() {
    for (row, expected) in [
        (
            "x,1,2,517,515,UA,N1,1400,5",
            "`year` is \"x\": expected a whole number from 1900 to 8999",
        ),
        (
            "2013,13,2,517,515,UA,N1,1400,5",
            "`month` is \"13\": expected a whole number from 1 to 12",
        ),
        ("2013,1,0,517,515,UA,N1,1400,5", "`day` is \"0\": expected a whole number from 1 to 31"),
        ("2013,1,2,5:17,515,UA,N1,1400,5", "`dep_time` is \"5:17\": expected"),
        ("2013,1,2,517,515,U,N1,1400,5", "`carrier` is \"U\": expected a code of two letters"),
        (
            "2013,1,2,517,515,UA,N12345678,1400,5",
            "`tailnum` is \"N12345678\": expected a tail number",
        ),
        ("2013,1,2,517,515,UA,N1,-1,5", "`distance` is \"-1\": expected a whole number from 0 to"),
        (
            "2013,1,2,517,515,UA,N1,1400,25",
            "`hour` is \"25\": expected a whole number from 0 to 24",
        ),
        ("2013,1,2,517,515,UA,N1,NA,5", "`distance` is \"NA\": expected"),
    ] {
        let error = flight(row).unwrap_err();
        assert!(error.contains(expected), "{row}: {error}");
    }
}

#[test]
fn a_missing_column_is_an_error_that_names_it() {
    let text = "year,month,day,dep_time,carrier,tailnum,hour\n2013,1,2,517,UA,N1,5\n";
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let read: Result<Flight, _> = reader.deserialize().next().unwrap();
    assert!(read.unwrap_err().to_string().contains("missing field `distance`"));
}

#[test]
fn the_files_that_ship_are_read_whole() {
    let flights: Vec<Flight> = gunzip(JANUARY).deserialize().map(Result::unwrap).collect();
    assert_eq!(flights.len(), 27_004);
    assert_eq!(flights.iter().filter(|flight| !flight.departed).count(), 521);
    assert!(flights.iter().all(|flight| flight.month() == Month::new(2013, 1)));
    let planes: Vec<Plane> = gunzip(PLANES).deserialize().map(Result::unwrap).collect();
    assert_eq!(planes.len(), 3_322);
    assert_eq!(planes.iter().map(|plane| plane.seats).max(), Some(450));
}

#[test]
fn an_aircraft_without_stated_seats_seats_what_an_unlisted_one_does() {
    let text = "tailnum,year,seats\nN1,2004,NA\n";
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let plane: Plane = reader.deserialize().next().unwrap().unwrap();
    assert_eq!(plane.seats, SEATS_UNLISTED);
}

#[test]
fn a_repetition_is_a_year_later() {
    let read = flight("2013,12,2,517,515,UA,N1,1400,5").unwrap();
    assert_eq!(read.later(2).month().to_string(), "2015-12");
    assert!(read.month() < read.later(1).month());
}

#[test]
fn records_are_copied_as_they_lie_in_memory() {
    fn is_copied<T: Archive>() -> bool {
        T::COPY_OPTIMIZATION.is_enabled()
    }
    assert!(is_copied::<Flight>());
    assert!(is_copied::<Plane>());
    assert!(is_copied::<Charge>());
    assert!(is_copied::<Carrier>() && is_copied::<Tail>() && is_copied::<Month>());
}
