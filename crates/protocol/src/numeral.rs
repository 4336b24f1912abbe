//! A ticket as a number, and a nonce as it is stored, to serde.

use crate::ticket::Ticket;

impl serde::Serialize for Ticket {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.get())
    }
}

impl<'de> serde::Deserialize<'de> for Ticket {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Ticket::new)
    }
}

#[cfg(feature = "record")]
mod nonce {
    use serde::de::Error;

    use crate::entry::Nonce;

    impl serde::Serialize for Nonce {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self)
        }
    }

    impl<'de> serde::Deserialize<'de> for Nonce {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = String::deserialize(deserializer)?;
            Nonce::parse(&text).ok_or_else(|| D::Error::custom("is no nonce"))
        }
    }
}
