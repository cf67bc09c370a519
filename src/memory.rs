//! Memory asked for before it is needed.
//!
//! Rust ends the process where an allocation fails. So what takes much memory asks first,
//! and gets an error in place of the end.

use crate::{Error, Result};

/// Makes sure that `n` times `size` bytes can be had now. They are reserved and given back
/// at once: what needs them takes them right after. Untouched pages cost nothing.
///
/// # Errors
/// [`Error::Memory`] with the number of bytes.
pub(crate) fn room(n: usize, size: usize) -> Result<()> {
    let bytes = n.saturating_mul(size);
    let mut probe: Vec<u8> = Vec::new();
    probe.try_reserve_exact(bytes).map_err(|_| Error::Memory { bytes })?;
    // Else the compiler may leave both calls out.
    std::hint::black_box(&mut probe);
    Ok(())
}

/// `n` times the same value.
///
/// # Errors
/// [`Error::Memory`] with the number of bytes.
pub(crate) fn filled<T: Clone>(value: T, n: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    let bytes = n.saturating_mul(size_of::<T>());
    list.try_reserve_exact(n).map_err(|_| Error::Memory { bytes })?;
    list.resize(n, value);
    Ok(list)
}

/// Adds an item to a list.
///
/// # Errors
/// [`Error::Memory`], with nothing changed.
#[inline]
pub(crate) fn push<T>(list: &mut Vec<T>, item: T) -> Result<()> {
    reserve(list, 1)?;
    list.push(item);
    Ok(())
}

/// Makes room for `more` items at the end of a list.
///
/// # Errors
/// [`Error::Memory`], with nothing changed.
#[inline]
pub(crate) fn reserve<T>(list: &mut Vec<T>, more: usize) -> Result<()> {
    if list.capacity() - list.len() >= more {
        return Ok(());
    }
    let bytes = list.len().saturating_add(more).saturating_mul(size_of::<T>());
    list.try_reserve(more).map_err(|_| Error::Memory { bytes })
}
