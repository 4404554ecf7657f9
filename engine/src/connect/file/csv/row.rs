//! A record from the fields of one row, and where in the row it fails.
//!
//! Only the columns that a record names are looked at. An empty field is an absent `Option`; other
//! fields are parsed as what the record wants.

use std::cell::OnceCell;
use std::fmt;
use std::str::FromStr;

use csv::StringRecord;
use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::connect::file::error::Column;

/// The columns of a file.
#[derive(Default)]
pub(super) struct Columns {
    names: StringRecord,
    /// Those that a record names, once one was asked for.
    named: OnceCell<Vec<usize>>,
}

impl Columns {
    /// As a header names them.
    pub(super) fn new(header: &StringRecord) -> Columns {
        Columns { names: header.clone(), named: OnceCell::new() }
    }

    /// The record in a row.
    #[inline]
    pub(super) fn record<R: DeserializeOwned>(&self, row: &StringRecord) -> Result<R, RowError> {
        R::deserialize(Row { columns: self, fields: row })
    }

    /// Whether these can be the columns of such records, as far as that can be told before there
    /// is a row: the header is taken for one.
    pub(super) fn check<R: DeserializeOwned>(&self) -> Result<(), RowError> {
        match self.record::<R>(&self.names) {
            Err(error) if error.is_of_header() => Err(error),
            _ => Ok(()),
        }
    }

    /// Where an error is, and what.
    pub(super) fn locate(&self, error: RowError) -> (Column, String) {
        match error {
            RowError::Missing(name) => {
                let found = self.names.iter().collect::<Vec<_>>().join(", ");
                (Column::Missing(name.into()), format!("there is no such column, only {found:?}"))
            }
            RowError::Field(index, reason) => {
                let name = self.names.get(index.unwrap_or(0)).map(str::to_owned);
                (Column::Field(index.unwrap_or(0) + 1, name), reason)
            }
        }
    }
}

/// Why a row is no record.
#[derive(Debug)]
pub(super) enum RowError {
    /// The header lacks a column.
    Missing(&'static str),
    /// A field is malformed: its index, once it is known.
    Field(Option<usize>, String),
}

impl RowError {
    pub(super) fn field(index: usize, reason: String) -> RowError {
        RowError::Field(Some(index), reason)
    }

    pub(super) fn is_of_header(&self) -> bool {
        matches!(self, RowError::Missing(_))
    }

    fn within(self, index: usize) -> RowError {
        match self {
            RowError::Field(None, reason) => RowError::Field(Some(index), reason),
            known => known,
        }
    }
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowError::Missing(name) => write!(f, "column {name:?} is missing"),
            RowError::Field(_, reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for RowError {}

impl de::Error for RowError {
    fn custom<T: fmt::Display>(reason: T) -> RowError {
        RowError::Field(None, reason.to_string())
    }

    fn missing_field(name: &'static str) -> RowError {
        RowError::Missing(name)
    }
}

/// One row, for `serde`.
#[derive(Clone, Copy)]
struct Row<'de> {
    columns: &'de Columns,
    fields: &'de StringRecord,
}

impl<'de> Deserializer<'de> for Row<'de> {
    type Error = RowError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        visitor.visit_map(Named { row: self, indices: 0..self.fields.len(), index: 0 })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, RowError> {
        if let Some(named) = self.columns.named.get() {
            let indices = named.iter().copied();
            return visitor.visit_map(Named { row: self, indices, index: 0 });
        }
        let header = self.columns.names.iter().enumerate();
        let named = header.filter(|(_, name)| names.contains(name)).map(|(index, _)| index);
        let named = self.columns.named.get_or_init(|| named.collect());
        match names.first() {
            Some(first) if named.is_empty() => Err(RowError::Missing(first)),
            // The first row meets all columns: a record that denies unknown ones can say so.
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, RowError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        visitor.visit_seq(InOrder { row: self, index: 0 })
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, RowError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, RowError> {
        self.deserialize_seq(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct map enum identifier ignored_any
    }
}

/// The fields of a row, each after the name of its column.
struct Named<'de, I> {
    row: Row<'de>,
    indices: I,
    index: usize,
}

impl<'de, I: Iterator<Item = usize>> MapAccess<'de> for Named<'de, I> {
    type Error = RowError;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, RowError> {
        let Some(index) = self.indices.next() else { return Ok(None) };
        self.index = index;
        let name = &self.row.columns.names[index];
        let key = seed.deserialize(BorrowedStrDeserializer::new(name));
        key.map(Some).map_err(|error: RowError| error.within(index))
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, RowError> {
        seed.deserialize(Field(&self.row.fields[self.index]))
            .map_err(|error| error.within(self.index))
    }
}

/// The fields of a row, one after another.
struct InOrder<'de> {
    row: Row<'de>,
    index: usize,
}

impl<'de> SeqAccess<'de> for InOrder<'de> {
    type Error = RowError;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, RowError> {
        let Some(field) = self.row.fields.get(self.index) else { return Ok(None) };
        let value = seed.deserialize(Field(field)).map_err(|error| error.within(self.index))?;
        self.index += 1;
        Ok(Some(value))
    }
}

/// One field, for `serde`.
#[derive(Clone, Copy)]
struct Field<'de>(&'de str);

impl Field<'_> {
    fn parse<T: FromStr<Err: fmt::Display>>(self) -> Result<T, RowError> {
        self.0.parse().map_err(|error: T::Err| {
            let wanted = std::any::type_name::<T>();
            RowError::Field(None, format!("{} is no {wanted}: {error}", self.quoted()))
        })
    }

    /// As messages show it: without line breaks, and not a whole novel.
    fn quoted(self) -> String {
        let mut shown: String = self.0.chars().take(40).collect();
        if shown.len() < self.0.len() {
            shown.push('…');
        }
        format!("{shown:?}")
    }
}

macro_rules! parsed {
    ($($deserialize:ident $visit:ident),*) => {$(
        #[inline]
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
            visitor.$visit(self.parse()?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Field<'de> {
    type Error = RowError;

    /// For a record that does not say what it wants (an untagged enum, a flattened struct).
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        if let Ok(value) = self.0.parse() {
            visitor.visit_bool(value)
        } else if let Ok(value) = self.0.parse() {
            visitor.visit_u64(value)
        } else if let Ok(value) = self.0.parse() {
            visitor.visit_i64(value)
        } else if let Ok(value) = self.0.parse() {
            visitor.visit_f64(value)
        } else {
            visitor.visit_borrowed_str(self.0)
        }
    }

    parsed! {
        deserialize_bool visit_bool, deserialize_i8 visit_i8, deserialize_i16 visit_i16,
        deserialize_i32 visit_i32, deserialize_i64 visit_i64, deserialize_i128 visit_i128,
        deserialize_u8 visit_u8, deserialize_u16 visit_u16, deserialize_u32 visit_u32,
        deserialize_u64 visit_u64, deserialize_u128 visit_u128, deserialize_f32 visit_f32,
        deserialize_f64 visit_f64, deserialize_char visit_char
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        visitor.visit_borrowed_str(self.0)
    }

    #[inline]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        visitor.visit_borrowed_bytes(self.0.as_bytes())
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        visitor.visit_borrowed_bytes(self.0.as_bytes())
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        if self.0.is_empty() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, RowError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, RowError> {
        visitor.visit_enum(StrDeserializer::new(self.0))
    }

    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        unit unit_struct seq tuple tuple_struct map struct identifier
    }
}
