//! The envelope of every small object: magic, kind, version, length and checksum come before the
//! content, and are checked before anything of it is looked at. FORMAT.md draws it.

use crate::error::Damage;

/// The first bytes of every file of ours.
pub(crate) const MAGIC: [u8; 8] = *b"OVERTAKE";

/// The bytes before the content.
const HEAD: usize = 32;

/// What an object is: four letters in the file, and words for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) tag: [u8; 4],
    pub(crate) version: u32,
    pub(crate) what: &'static str,
}

pub(crate) const JOB: Kind = Kind { tag: *b"JOB ", version: 1, what: "a job record" };
pub(crate) const LIFE: Kind = Kind { tag: *b"LIFE", version: 1, what: "a record of a life" };
pub(crate) const MARK: Kind = Kind { tag: *b"MARK", version: 1, what: "a mark of a commit" };
pub(crate) const SAVEPOINT: Kind = Kind { tag: *b"SAVE", version: 1, what: "a savepoint" };
pub(crate) const MANIFEST: Kind = Kind { tag: *b"MANI", version: 1, what: "a manifest" };
pub(crate) const SEGMENT: Kind = Kind { tag: *b"SEGM", version: 1, what: "a segment" };

impl Kind {
    /// The first 16 bytes of a file of this kind.
    pub(crate) fn head(self) -> [u8; 16] {
        let mut head = [0; 16];
        head[..8].copy_from_slice(&MAGIC);
        head[8..12].copy_from_slice(&self.tag);
        head[12..].copy_from_slice(&self.version.to_le_bytes());
        head
    }

    /// Checks the first 16 bytes of a file.
    pub(crate) fn check(self, file: &str, head: &[u8]) -> Result<(), Damage> {
        let ours = self.head();
        if head.len() < ours.len() || head[..12] != ours[..12] {
            return Err(Damage::Magic { file: file.into(), expected: self.what });
        }
        match le_u32(head, 12) {
            found if found != self.version => {
                Err(Damage::Version { file: file.into(), known: self.version, found })
            }
            _ => Ok(()),
        }
    }

    /// Puts a content into its envelope.
    pub(crate) fn seal(self, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + content.len());
        bytes.extend(self.head());
        bytes.extend((content.len() as u64).to_le_bytes());
        bytes.extend([0; 4]);
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes), content);
        bytes.extend(checksum.to_le_bytes());
        bytes.extend(content);
        bytes
    }

    /// Takes a content out of its envelope, after all checks.
    pub(crate) fn open<'a>(self, file: &str, bytes: &'a [u8]) -> Result<&'a [u8], Damage> {
        let length =
            |expected| Damage::Length { file: file.into(), expected, found: bytes.len() as u64 };
        if bytes.len() < HEAD {
            return Err(length(HEAD as u64));
        }
        self.check(file, bytes)?;
        let (head, content) = bytes.split_at(HEAD);
        let expected = le_u64(head, 16);
        if content.len() as u64 != expected {
            return Err(length(expected.saturating_add(HEAD as u64)));
        }
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&head[..HEAD - 4]), content);
        check_crc(file, 0, le_u32(head, HEAD - 4), checksum)?;
        Ok(content)
    }
}

/// Compares two checksums.
pub(crate) fn check_crc(file: &str, offset: u64, expected: u32, found: u32) -> Result<(), Damage> {
    if expected == found {
        Ok(())
    } else {
        Err(Damage::Checksum { file: file.into(), offset, expected, found })
    }
}

/// Four bytes as a number; the caller has checked that they are there.
pub(crate) fn le_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Eight bytes as a number; the caller has checked that they are there.
pub(crate) fn le_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let sealed = LIFE.seal(b"some content");
        assert_eq!(LIFE.open("f", &sealed), Ok(&b"some content"[..]));
        for bit in 0..sealed.len() * 8 {
            let mut bytes = sealed.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            LIFE.open("f", &bytes).unwrap_err();
        }
        for len in 0..sealed.len() {
            LIFE.open("f", &sealed[..len]).unwrap_err();
        }
        LIFE.open("f", &[&sealed[..], b"more"].concat()).unwrap_err();
        MARK.open("f", &sealed).unwrap_err();
    }

    #[test]
    fn another_version_is_named() {
        let sealed = Kind { version: 7, ..LIFE }.seal(b"");
        let error = LIFE.open("lives/1", &sealed).unwrap_err();
        assert_eq!(error, Damage::Version { file: "lives/1".into(), known: 1, found: 7 });
    }
}
