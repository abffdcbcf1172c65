use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::money::Cents;

/// One order of the shop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Its number.
    pub id: String,
    /// Who ordered.
    pub customer: String,
    /// What was ordered.
    pub item: String,
    /// What was paid.
    pub paid: Cents,
    /// What was given back.
    pub refunds: Vec<Refund>,
}

/// Money given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    /// How much.
    pub amount: Cents,
    /// The idempotency key of the call that asked for it; empty if it had none.
    pub key: String,
}

/// The shop's state could not be read or changed.
#[derive(Debug, Error)]
pub enum StateError {
    /// The file cannot be read, written or locked.
    #[error("the shop's state in {} cannot be used", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file holds something else.
    #[error("{} is not a shop's state", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// There is no such order.
    #[error("there is no order `{0}`")]
    NoOrder(String),
    /// A refund of nothing.
    #[error("a refund must be more than 0.00")]
    Nothing,
    /// More than is left.
    #[error("order {order} has {left} left to refund")]
    TooMuch {
        /// The order.
        order: String,
        /// What is left of what was paid.
        left: Cents,
    },
}

/// A shop whose orders are a JSON file. Several processes may use the same file.
#[derive(Debug, Clone)]
pub struct Shop {
    path: PathBuf,
}

impl Order {
    /// What is left of what was paid.
    pub fn left(&self) -> Cents {
        let refunded: u64 = self.refunds.iter().map(|refund| refund.amount.0).sum();
        Cents(self.paid.0.saturating_sub(refunded))
    }
}

impl Shop {
    /// The shop of a state file; made with a few orders in it if it is not there.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the file cannot be made or read.
    pub fn open(path: PathBuf) -> Result<Self, StateError> {
        let shop = Self { path };
        let _lock = shop.lock()?;
        if shop.path.exists() {
            shop.read()?;
        } else {
            shop.write(&sample())?;
        }
        Ok(shop)
    }

    /// All orders.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the file cannot be read.
    pub fn orders(&self) -> Result<Vec<Order>, StateError> {
        self.read()
    }

    /// One order.
    ///
    /// # Errors
    ///
    /// [`StateError::NoOrder`] if there is none of that number.
    pub fn order(&self, id: &str) -> Result<Order, StateError> {
        self.read()?
            .into_iter()
            .find(|order| order.id == id)
            .ok_or_else(|| StateError::NoOrder(id.to_owned()))
    }

    /// Gives money back and returns the order as it is then. The same key refunds once.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the order does not allow it; nothing has changed then.
    pub fn refund(&self, id: &str, amount: Cents, key: &str) -> Result<Order, StateError> {
        let _lock = self.lock()?;
        let mut orders = self.read()?;
        let order = orders
            .iter_mut()
            .find(|order| order.id == id)
            .ok_or_else(|| StateError::NoOrder(id.to_owned()))?;
        let done = !key.is_empty() && order.refunds.iter().any(|refund| refund.key == key);
        if done {
            return Ok(order.clone());
        }
        if amount == Cents(0) {
            return Err(StateError::Nothing);
        }
        if amount > order.left() {
            return Err(StateError::TooMuch {
                order: id.to_owned(),
                left: order.left(),
            });
        }
        order.refunds.push(Refund {
            amount,
            key: key.to_owned(),
        });
        let order = order.clone();
        self.write(&orders)?;
        Ok(order)
    }

    fn lock(&self) -> Result<File, StateError> {
        let mut name = self.path.clone().into_os_string();
        name.push(".lock");
        let lock = File::create(PathBuf::from(name)).map_err(|source| self.file(source))?;
        lock.lock().map_err(|source| self.file(source))?;
        Ok(lock)
    }

    fn read(&self) -> Result<Vec<Order>, StateError> {
        let text = fs::read_to_string(&self.path).map_err(|source| self.file(source))?;
        serde_json::from_str(&text).map_err(|source| StateError::Content {
            path: self.path.clone(),
            source,
        })
    }

    /// Replaces the file in one step: a reader sees the old state or the new one.
    fn write(&self, orders: &[Order]) -> Result<(), StateError> {
        let text = serde_json::to_string_pretty(orders).expect("orders hold only texts and lists");
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        let new = PathBuf::from(name);
        let written = File::create(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written
            .and_then(|()| fs::rename(&new, &self.path))
            .map_err(|source| self.file(source))
    }

    fn file(&self, source: std::io::Error) -> StateError {
        StateError::File {
            path: Path::new(&self.path).to_owned(),
            source,
        }
    }
}

fn sample() -> Vec<Order> {
    let order = |id: &str, customer: &str, item: &str, paid: u64| Order {
        id: id.to_owned(),
        customer: customer.to_owned(),
        item: item.to_owned(),
        paid: Cents(paid),
        refunds: Vec::new(),
    };
    vec![
        order("A-16", "Jonas Weber", "Desk lamp", 3900),
        order("A-17", "Ada Brandt", "Espresso cups, set of six", 4990),
        order("A-18", "Mina Okoro", "Bookshelf", 18900),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shop() -> (tempfile::TempDir, Shop) {
        let folder = tempfile::tempdir().unwrap();
        let shop = Shop::open(folder.path().join("shop.json")).unwrap();
        (folder, shop)
    }

    #[test]
    fn a_refund_is_seen_in_the_file_and_happens_once_per_key() {
        let (_folder, shop) = shop();
        shop.refund("A-17", Cents(1250), "k1").unwrap();
        shop.refund("A-17", Cents(1250), "k1").unwrap();
        let again = Shop::open(shop.path.clone()).unwrap();
        let order = again.order("A-17").unwrap();
        assert_eq!(order.refunds.len(), 1);
        assert_eq!(order.left(), Cents(3740));
    }

    #[test]
    fn no_more_is_given_back_than_was_paid() {
        let (_folder, shop) = shop();
        shop.refund("A-16", Cents(3000), "k1").unwrap();
        let error = shop.refund("A-16", Cents(901), "k2").unwrap_err();
        assert_eq!(error.to_string(), "order A-16 has 9.00 left to refund");
        assert!(matches!(
            shop.refund("A-16", Cents(0), "k3"),
            Err(StateError::Nothing)
        ));
        assert!(matches!(
            shop.refund("B-1", Cents(1), "k4"),
            Err(StateError::NoOrder(_))
        ));
        assert_eq!(shop.order("A-16").unwrap().refunds.len(), 1);
    }
}
