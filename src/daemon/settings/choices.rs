//! Settings that are one of a few words.

use crate::protocol::Config;

/// Declares an enum with the word that each variant is written as.
macro_rules! choice {
    (
        $(#[$doc:meta])*
        $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// Every choice, as written.
            pub const WORDS: &'static [&'static str] = &[$($word,)+];

            /// The word of this choice.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }

            /// The choice that `word` stands for.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some($name::$variant),)+ _ => None }
            }
        }
    };
}

choice! {
    /// A set of protocol defaults.
    Profile {
        /// One machine: quick verdicts, eager pushes.
        Local = "local",
        /// One data centre.
        Lan = "lan",
        /// Between sites.
        Wan = "wan",
    }
}

choice! {
    /// Whether the HTTP interface may change anything.
    HttpWrites {
        /// Only while it listens on a loopback address.
        Auto = "auto",
        /// Always.
        On = "on",
        /// Never.
        Off = "off",
    }
}

choice! {
    /// How log lines look.
    LogFormat {
        /// Text on a terminal, else JSON.
        Auto = "auto",
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

impl Profile {
    /// The protocol parameters of this profile.
    #[must_use]
    pub fn config(self) -> Config {
        match self {
            Profile::Local => Config::local(),
            Profile::Lan => Config::lan(),
            Profile::Wan => Config::wan(),
        }
    }
}
