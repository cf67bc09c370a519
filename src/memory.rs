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

/// Adds items to a list.
///
/// # Errors
/// [`Error::Memory`]; some may have been added.
#[inline]
pub(crate) fn extend<T>(
    list: &mut Vec<T>,
    items: impl IntoIterator<Item = T>,
) -> Result<()> {
    let items = items.into_iter();
    let (least, most) = items.size_hint();
    reserve(list, least)?;
    if most == Some(least) {
        // It knows its length: a loop without a question for each item.
        list.extend(items);
        return Ok(());
    }
    for item in items {
        push(list, item)?;
    }
    Ok(())
}

/// The items as a list.
///
/// # Errors
/// [`Error::Memory`].
pub(crate) fn collect<T>(items: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    let mut list = Vec::new();
    extend(&mut list, items)?;
    Ok(list)
}

/// Makes a list at least so long, by items of one value.
///
/// # Errors
/// [`Error::Memory`], with nothing changed.
#[inline]
pub(crate) fn reach<T: Clone>(list: &mut Vec<T>, len: usize, value: T) -> Result<()> {
    if list.len() < len {
        reserve(list, len - list.len())?;
        list.resize(len, value);
    }
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
