//! Texts that cross the border from Python.
//!
//! A `str` need not be Unicode text. It may hold lone surrogates, which have no UTF-8; and
//! where its memory comes from elsewhere (a numpy array of another type, viewed as one of
//! text), code points beyond U+10FFFF, of which Python and PyO3 make bytes that are not
//! UTF-8 without an error. A `&str` of such bytes breaks what all code here relies on: so
//! nothing takes a `&str` or `String` from Python, but a [`Text`], or [`TextSource`] for text
//! that may be long. What goes into messages is made by [`shown`], [`repr`] and
//! [`type_name`].

use std::ops::Deref;

use pyo3::exceptions::{PyUnicodeEncodeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyString};

use crate::{Context, parse};

/// A `str` that was checked, kept alive and not copied; or a parameter's default.
pub(super) enum Text {
    Checked(PyBackedStr),
    Default(&'static str),
}

impl Text {
    /// The text; an error that begins with `place` where it is not Unicode text.
    pub(super) fn of(
        text: &Bound<'_, PyString>,
        place: impl Fn() -> String,
    ) -> PyResult<Self> {
        let checked = encoded(text)?.filter(is_utf8).map(Self::Checked);
        checked.ok_or_else(|| {
            let got = repr(text.as_any());
            PyValueError::new_err(format!(
                "{}expected Unicode text, got a lone surrogate or a code point \
                 beyond U+10FFFF in {got}",
                place()
            ))
        })
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Checked(text) => text,
            Self::Default(text) => text,
        }
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Self {
        Self::Default(text)
    }
}

impl FromPyObject<'_, '_> for Text {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        Self::of(&*object.cast::<PyString>()?, String::new)
    }
}

/// A text or bytes to be read; kept alive, and checked away from the interpreter.
pub(super) enum TextSource {
    Str(PyBackedStr),
    Bytes(PyBackedBytes),
}

impl TextSource {
    /// The text, or None if the object is not one.
    pub(super) fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        if let Ok(text) = object.cast::<PyString>() {
            if let Some(text) = encoded(text)? {
                return Ok(Some(Self::Str(text)));
            }
            // The place of a lone surrogate is found like that of any byte that is not UTF-8.
            let bytes = text.call_method1("encode", ("utf-8", "surrogatepass"))?;
            return Ok(Some(Self::Bytes(bytes.cast_into::<PyBytes>()?.into())));
        }
        let bytes = object.cast::<PyBytes>();
        Ok(bytes.ok().map(|bytes| Self::Bytes(bytes.clone().into())))
    }

    /// The text; an error with its place where it is not UTF-8.
    pub(super) fn as_str(
        &self,
        item: Option<usize>,
        context: &Context,
    ) -> crate::Result<&str> {
        let bytes = match self {
            Self::Str(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        };
        parse::utf8_with(bytes, item, context)
    }
}

/// What Python makes of a `str` as UTF-8, which need not be; None where a lone surrogate
/// stops it.
fn encoded(text: &Bound<'_, PyString>) -> PyResult<Option<PyBackedStr>> {
    match PyBackedStr::try_from(text.clone()) {
        Ok(text) => Ok(Some(text)),
        // Any other error, such as one for memory, is the caller's.
        Err(error) if error.is_instance_of::<PyUnicodeEncodeError>(text.py()) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Of the bytes, as nothing else may be asked of a `&str` before this is known.
fn is_utf8(text: &PyBackedStr) -> bool {
    std::str::from_utf8(text.as_bytes()).is_ok()
}

/// What `str(object)` gives, for messages.
pub(super) fn shown(object: &Bound<'_, PyAny>) -> String {
    object.str().map_or_else(|_| "?".to_owned(), |text| lossy(&text))
}

/// What `repr(object)` gives, for messages.
pub(super) fn repr(object: &Bound<'_, PyAny>) -> String {
    object.repr().map_or_else(|_| type_name(object), |text| lossy(&text))
}

/// The qualified name of an object's class, for messages.
pub(super) fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().qualname().map_or_else(|_| "?".to_owned(), |name| lossy(&name))
}

/// A text with U+FFFD in place of what is not Unicode.
#[allow(clippy::disallowed_methods)] // the bytes are checked
fn lossy(text: &Bound<'_, PyString>) -> String {
    String::from_utf8_lossy(text.to_string_lossy().as_bytes()).into_owned()
}
