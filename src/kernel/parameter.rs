//! Parameters as data: what `repr`, files, checks and their errors are made of.

use super::parameter;
use crate::Result;

/// A value of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A number.
    Number(f64),
    /// A limit; None for no limit.
    Limit(Option<usize>),
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<Option<usize>> for Value {
    fn from(limit: Option<usize>) -> Self {
        Self::Limit(limit)
    }
}

impl TryFrom<Value> for f64 {
    type Error = ();

    fn try_from(value: Value) -> std::result::Result<Self, ()> {
        if let Value::Number(value) = value { Ok(value) } else { Err(()) }
    }
}

impl TryFrom<Value> for Option<usize> {
    type Error = ();

    fn try_from(value: Value) -> std::result::Result<Self, ()> {
        if let Value::Limit(limit) = value { Ok(limit) } else { Err(()) }
    }
}

/// The values that a parameter may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Range {
    /// Above 0 and at most 1.
    Share,
    /// Finite and not negative.
    NotNegative,
    /// A limit of at least 1, or none.
    Limit,
    /// Finite and above 0.
    Positive,
    /// A whole number from 1 to 1000.
    Degree,
}

impl Range {
    /// The range in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Share => "above 0 and at most 1",
            Self::NotNegative => "finite and not negative",
            Self::Limit => "at least 1, or None for no limit",
            Self::Positive => "finite and above 0",
            Self::Degree => "an int from 1 to 1000",
        }
    }

    /// Whether a value is in the range.
    pub fn contains(self, value: Value) -> bool {
        // A value of the other type is in no range of this one.
        match (self, value) {
            (Self::Share, Value::Number(x)) => x > 0.0 && x <= 1.0,
            (Self::NotNegative, Value::Number(x)) => x >= 0.0 && x.is_finite(),
            (Self::Limit, Value::Limit(limit)) => limit != Some(0),
            (Self::Positive, Value::Number(x)) => x > 0.0 && x.is_finite(),
            (Self::Degree, Value::Limit(degree)) => {
                degree.is_some_and(|degree| (1..=1000).contains(&degree))
            }
            _ => false,
        }
    }
}

/// A parameter of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Parameter {
    /// Its name: that of the struct's field.
    pub name: &'static str,
    /// Its value, in the range or not.
    pub value: Value,
    /// Its range.
    pub range: Range,
}

impl Parameter {
    /// A parameter with its value.
    pub fn new(name: &'static str, value: impl Into<Value>, range: Range) -> Self {
        Self { name, value: value.into(), range }
    }

    /// Checks that the value is in its range.
    ///
    /// # Errors
    /// [`Error::Parameter`](crate::Error::Parameter) that names all three.
    pub fn check(&self) -> Result<()> {
        if self.range.contains(self.value) {
            return Ok(());
        }
        let got = match self.value {
            Value::Number(value) => value.to_string(),
            Value::Limit(limit) => {
                limit.map_or("None".into(), |limit| limit.to_string())
            }
        };
        Err(parameter(self.name, self.range.words(), &got))
    }
}

/// Makes a kernel's struct, so that each parameter stands once, with its default, range
/// and setter. `described!()` within the struct's `impl Kernel` is its name and parameters.
macro_rules! kernel_struct {
    (
        $(#[$doc:meta])*
        $kernel:ident new($($need:ident),*) {
            $($(#[$note:meta])* $field:ident: $type:ty = $default:expr, $range:ident, $with:ident;)*
        }
    ) => {
        $(#[$doc])*
        ///
        /// Values are checked when the kernel is used.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub struct $kernel {
            $($(#[$note])* pub $field: $type,)*
        }

        impl Default for $kernel {
            fn default() -> Self {
                Self::DEFAULT
            }
        }

        impl $kernel {
            const NAME: &str = stringify!($kernel);
            const DEFAULT: Self = Self { $($field: $default),* };

            /// The kernel with these parameters; all others are at their defaults.
            #[must_use]
            pub const fn new($($need: f64),*) -> Self {
                let mut new = Self::DEFAULT;
                $(new.$need = $need;)*
                new
            }

            $(
                /// The same kernel with another value of this parameter.
                #[must_use]
                pub const fn $with(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )*

            fn list(&self) -> Vec<$crate::kernel::Parameter> {
                use $crate::kernel::{Parameter, Range};
                // bounded: a kernel's parameters
                vec![$(Parameter::new(stringify!($field), self.$field, Range::$range)),*]
            }

            #[allow(dead_code)]
            pub(super) fn changed(&self, name: &str, value: $crate::kernel::Value) -> Option<Self> {
                let mut new = self.clone();
                match name {
                    $(stringify!($field) => new.$field = value.try_into().ok()?,)*
                    _ => return None,
                }
                Some(new)
            }
        }
    };
}

/// See [`kernel_struct`].
macro_rules! described {
    () => {
        fn name(&self) -> &'static str {
            Self::NAME
        }

        fn parameters(&self) -> Vec<$crate::kernel::Parameter> {
            self.list()
        }

        fn with(
            &self,
            name: &str,
            value: $crate::kernel::Value,
        ) -> Option<std::sync::Arc<dyn $crate::kernel::Kernel>> {
            Some(std::sync::Arc::new(self.changed(name, value)?))
        }
    };
}
pub(crate) use {described, kernel_struct};
