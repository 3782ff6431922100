//! Little-endian numbers in a record of a binary form.

/// A record that is read from its start, field by field.
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    /// The next `N` bytes.
    ///
    /// # Panics
    /// If the record has fewer left: records have a fixed layout.
    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.0.split_at(N);
        self.0 = rest;
        head.try_into().expect("split at N")
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    pub fn i64(&mut self) -> i64 {
        i64::from_le_bytes(self.take())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }
}
