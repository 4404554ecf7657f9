//! What can be stored: [`Data`], its encoding, and the [`Layout`] by which a stored type is
//! recognised.
//!
//! Everything stored is an rkyv archive: little-endian, aligned, with 32-bit relative pointers, as
//! the features in the workspace's `Cargo.toml` pin it. Users derive rkyv's three traits; there is
//! nothing of ours to implement.
//!
//! # Invariants
//!
//! * **D1**: no byte that comes from outside is taken for an archive before `bytecheck` has seen
//!   it, so that the worst that foreign bytes can give is [`Malformed`] or another valid value.
//! * **D2**: an archive begins at an address of [`ALIGN`], whatever the alignment of its input.

use std::any::type_name;
use std::cell::Cell;
use std::fmt;

use rkyv::api::high::{HighDeserializer, HighSerializer, HighValidator};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::{Error, Fallible};
use rkyv::ser::allocator::{Allocator, ArenaHandle};
use rkyv::ser::{Serializer, Writer, sharing::Share};
use rkyv::util::{AlignedVec, with_arena};
use rkyv::vec::{ArchivedVec, VecResolver};
use rkyv::{Archive, Deserialize, Place, Serialize};

/// The alignment of every archive, the largest that rkyv asks for.
pub const ALIGN: usize = 16;

/// What can be a record, a key or a value: derive rkyv's `Archive`, `Serialize` and `Deserialize`.
///
/// ```
/// use overtake_state::{Data, decode, encode};
///
/// #[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
/// struct Invoice {
///     carrier: String,
///     cents: i64,
/// }
///
/// let invoice = Invoice { carrier: "UA".into(), cents: 120 };
/// let mut bytes = vec![];
/// encode(&invoice, &mut bytes);
/// assert_eq!(decode::<Invoice>(&bytes).unwrap(), invoice);
/// ```
pub trait Data:
    Archive<
        Archived: for<'a> CheckBytes<HighValidator<'a, Error>>
                      + Deserialize<Self, HighDeserializer<Error>>,
    > + for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Error>>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<T> Data for T
where
    T: Archive
        + for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Error>>
        + Clone
        + Send
        + Sync
        + 'static,
    T::Archived:
        for<'a> CheckBytes<HighValidator<'a, Error>> + Deserialize<T, HighDeserializer<Error>>,
{
}

/// What can be a key: data that can be told apart.
pub trait Key: Data + Eq {}

impl<T: Data + Eq> Key for T {}

/// The bytes are no archive of the type they were taken for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a stored {layout}: {why}")]
pub struct Malformed {
    /// The type that was expected.
    pub layout: Layout,
    /// What is wrong with the bytes, in one line.
    pub why: String,
}

/// Appends the archive of a value.
///
/// # Panics
///
/// If the archive is larger than 2 GiB, which is as far as its pointers reach.
pub fn encode<T: Data>(value: &T, out: &mut Vec<u8>) {
    with_archive(value, |archive| out.extend_from_slice(archive));
}

/// Reads a value back, after a check of every byte of it (D1).
///
/// # Errors
///
/// If the bytes are not an archive of this type.
pub fn decode<T: Data>(bytes: &[u8]) -> Result<T, Malformed> {
    let aligned: AlignedVec;
    // D2: rkyv reads in place, and a file or a network may have put the bytes anywhere.
    let bytes = if bytes.as_ptr().addr().is_multiple_of(ALIGN) {
        bytes
    } else {
        let mut copy = AlignedVec::with_capacity(bytes.len());
        copy.extend_from_slice(bytes);
        aligned = copy;
        &aligned
    };
    rkyv::from_bytes::<T, Error>(bytes).map_err(|error| Malformed {
        layout: layout::<T>(),
        why: error.to_string().lines().next().unwrap_or("unreadable").to_owned(),
    })
}

/// Appends one archive of a whole slice: that of a `Vec` of the same values. Where the archived
/// form of a type is its memory form (rkyv's `COPY_OPTIMIZATION`), this is one copy of memory.
///
/// # Panics
///
/// If the archive is larger than 2 GiB, which is as far as its pointers reach.
pub fn encode_slice<T: Data>(values: &[T], out: &mut Vec<u8>) {
    with_archive(&Slice(values), |archive| out.extend_from_slice(archive));
}

/// Reads back what [`encode_slice`] wrote.
///
/// # Errors
///
/// If the bytes are not an archive of such a slice.
pub fn decode_vec<T: Data>(bytes: &[u8]) -> Result<Vec<T>, Malformed> {
    decode::<Vec<T>>(bytes)
}

/// What is stored of a type to recognise it: a type that differs in any of this is another one.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct Layout {
    /// The name of the type, without the modules that it lives in.
    pub name: String,
    /// The size of its archived form.
    pub bytes: u32,
    /// The alignment of its archived form.
    pub align: u32,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes, aligned to {})", self.name, self.bytes, self.align)
    }
}

/// The layout of a type.
///
/// ```
/// let layout = overtake_state::layout::<Option<std::string::String>>();
/// assert_eq!(layout.to_string(), "Option<String> (12 bytes, aligned to 4)");
/// ```
pub fn layout<T: Data>() -> Layout {
    let limit = "an archived type is smaller than 4 GiB";
    Layout {
        name: without_modules(type_name::<T>()),
        bytes: u32::try_from(size_of::<T::Archived>()).expect(limit),
        align: u32::try_from(align_of::<T::Archived>()).expect(limit),
    }
}

/// `a::b::C<d::E>` becomes `C<E>`: moving a type to another module does not change what is stored.
fn without_modules(path: &str) -> String {
    let mut name = String::with_capacity(path.len());
    for (i, part) in path.split("::").enumerate() {
        if i > 0 {
            let kept = name.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_').len();
            name.truncate(kept);
        }
        name.push_str(part);
    }
    name
}

thread_local! {
    /// The buffer in which this thread archives, so that it does not allocate each time. Taken out
    /// while in use: a value that archives another one within its own archiving gets a new buffer.
    static SCRATCH: Cell<AlignedVec> = Cell::default();
}

/// Archives a value and shows the bytes.
pub(crate) fn with_archive<T, R>(value: &T, show: impl FnOnce(&[u8]) -> R) -> R
where
    T: for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Error>>,
{
    let mut scratch = SCRATCH.take();
    scratch.clear();
    let archive = with_arena(|arena| {
        let mut serializer = Serializer::new(scratch, arena.acquire(), Share::new());
        rkyv::api::serialize_using::<_, Error>(value, &mut serializer)
            .map(|_| serializer.into_writer())
    })
    .expect("writing to memory cannot fail, and an archive is smaller than 2 GiB");
    let result = show(&archive);
    // One huge value must not hold its memory for ever.
    SCRATCH.set(if archive.capacity() <= SCRATCH_BYTES_MAX { archive } else { AlignedVec::new() });
    result
}

/// What a thread keeps for archiving, at most.
const SCRATCH_BYTES_MAX: usize = 4 << 20;

/// Archives as a `Vec` does, without being one.
struct Slice<'a, T>(&'a [T]);

impl<T: Archive> Archive for Slice<'_, T> {
    type Archived = ArchivedVec<T::Archived>;
    type Resolver = VecResolver;

    fn resolve(&self, resolver: VecResolver, out: Place<Self::Archived>) {
        ArchivedVec::resolve_from_slice(self.0, resolver, out);
    }
}

impl<T: Serialize<S>, S: Fallible + Allocator + Writer + ?Sized> Serialize<S> for Slice<'_, T> {
    fn serialize(&self, serializer: &mut S) -> Result<VecResolver, S::Error> {
        ArchivedVec::serialize_from_slice(self.0, serializer)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use proptest::prelude::*;

    use super::*;

    type Nested = BTreeMap<String, VecDeque<(u8, Option<i64>)>>;

    #[test]
    fn a_type_is_named_without_its_modules() {
        assert_eq!(without_modules("u64"), "u64");
        assert_eq!(without_modules("a::b::C"), "C");
        assert_eq!(without_modules("a::B<c::D, &e::f::G>"), "B<D, &G>");
        assert_eq!(without_modules("(a::B, [c::D; 3])"), "(B, [D; 3])");
    }

    #[test]
    fn an_empty_input_is_malformed() {
        assert!(decode::<u64>(&[]).is_err());
        assert!(decode_vec::<u64>(&[]).is_err());
        assert!(decode::<bool>(&[2]).is_err());
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded_at_any_alignment(
            value: Vec<(String, i64)>, nested: Nested, before in 0usize..20,
        ) {
            let mut bytes = vec![7; before];
            encode(&value, &mut bytes);
            prop_assert_eq!(decode::<Vec<(String, i64)>>(&bytes[before..]).unwrap(), value.clone());
            bytes.truncate(before);
            encode_slice(&value, &mut bytes);
            prop_assert_eq!(decode_vec::<(String, i64)>(&bytes[before..]).unwrap(), value);
            bytes.truncate(before);
            encode(&nested, &mut bytes);
            prop_assert_eq!(decode::<Nested>(&bytes[before..]).unwrap(), nested);
        }

        #[test]
        fn any_bytes_are_malformed_or_a_value(bytes: Vec<u8>) {
            let _ = decode::<Nested>(&bytes);
            let _ = decode_vec::<String>(&bytes);
            let _ = decode_vec::<u64>(&bytes);
        }
    }
}
