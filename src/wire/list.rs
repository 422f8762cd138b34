//! Lists with a limit that is checked before any memory is taken.

use std::ops::Deref;

use bincode::de::read::Reader;
use bincode::de::{BorrowDecode, BorrowDecoder, Decode, Decoder};
use bincode::enc::{Encode, Encoder};
use bincode::error::{DecodeError, EncodeError};

/// Elements for which memory is taken before they have arrived.
const FIRST_ELEMENTS: usize = 8;

/// From this number on, bincode's variable-length integers take more than a byte.
const SINGLE_BYTE_END: u8 = 251;

/// Up to `MAX` elements. A longer list does not decode; encoding one is a bug of this program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct List<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> Default for List<T, MAX> {
    fn default() -> Self {
        List(Vec::new())
    }
}

impl<T, const MAX: usize> List<T, MAX> {
    /// Most elements.
    pub const MAX: usize = MAX;

    /// The elements by value.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.0
    }
}

impl<T, const MAX: usize> From<Vec<T>> for List<T, MAX> {
    /// Panics on more than `MAX` elements: the caller is to respect the limit.
    fn from(elements: Vec<T>) -> Self {
        assert!(
            elements.len() <= MAX,
            "a list of {} exceeds its limit {MAX}",
            elements.len()
        );
        List(elements)
    }
}

impl<T, const MAX: usize> Deref for List<T, MAX> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Encode, const MAX: usize> Encode for List<T, MAX> {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        // As any small number is written, and most lengths are small: in a single byte.
        match u8::try_from(self.0.len()) {
            Ok(few @ ..SINGLE_BYTE_END) => few.encode(encoder)?,
            _ => (self.0.len() as u64).encode(encoder)?,
        }
        self.0
            .iter()
            .try_for_each(|element| element.encode(encoder))
    }
}

/// How many elements a list says that it has.
fn decode_length<D: Decoder>(decoder: &mut D) -> Result<usize, DecodeError> {
    if let Some(&[few @ ..SINGLE_BYTE_END]) = decoder.reader().peek_read(1) {
        decoder.reader().consume(1);
        return Ok(few.into());
    }
    let claimed = u64::decode(decoder)?;
    Ok(usize::try_from(claimed).unwrap_or(usize::MAX))
}

impl<C, T: Decode<C>, const MAX: usize> Decode<C> for List<T, MAX> {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        const { assert!(size_of::<T>() > 0, "empty elements would make a list free") };
        let len = decode_length(decoder)?;
        if len > MAX {
            return Err(DecodeError::Other("a list exceeds its limit"));
        }
        if len == 0 {
            return Ok(List::default());
        }
        decoder.claim_container_read::<T>(len)?;
        // Grown as elements really arrive: a short input cannot take memory for a long list.
        let mut elements = Vec::with_capacity(len.min(FIRST_ELEMENTS));
        for _ in 0..len {
            decoder.unclaim_bytes_read(size_of::<T>());
            elements.push(T::decode(decoder)?);
        }
        Ok(List(elements))
    }
}

impl<'de, C, T: Decode<C>, const MAX: usize> BorrowDecode<'de, C> for List<T, MAX> {
    fn borrow_decode<D: BorrowDecoder<'de, Context = C>>(
        decoder: &mut D,
    ) -> Result<Self, DecodeError> {
        Self::decode(decoder)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Carrier, codec};
    use super::*;

    #[test]
    fn a_length_is_written_and_read_as_any_number() {
        for len in [0, 1, 250, 251, 252, 255, 256, 300] {
            let list = List::<u8, 300>::from(vec![7; len]);
            let (mut bytes, mut expected) = (Vec::new(), Vec::new());
            codec::encode_into(&list, &mut bytes);
            codec::encode_into(&(len as u64), &mut expected);
            expected.resize(expected.len() + len, 7);
            assert_eq!(bytes, expected, "{len}");
            let read = codec::decode::<List<u8, 300>>(&bytes, Carrier::Datagram);
            assert_eq!(read, Ok(list), "{len}");
            let beyond = codec::decode::<List<u8, 249>>(&bytes, Carrier::Datagram);
            assert_eq!(beyond.is_ok(), len <= 249, "{len}");
        }
    }
}
