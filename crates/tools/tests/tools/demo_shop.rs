//! The demo's shop as an agent sees it.

use sayso_driver::Tools;
use sayso_run::ToolOutcome;
use sayso_tools::demo_shop::{Cents, STATE_ENV, Shop};

use crate::world::{self, World, assert_says};

fn world(state: &std::path::Path) -> World {
    World::new(&format!(
        "servers: {{ shop: {{ command: [{}, shop], env: {{ {STATE_ENV}: {:?} }} }} }}\n",
        world::SERVER,
        state.display().to_string(),
    ))
}

#[tokio::test]
async fn orders_are_read_and_refunded_once() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("shop.json");
    let world = world(&state);
    let set = world.list().await;
    assert_eq!(
        set.find("shop.get_order").unwrap().hints.read_only,
        Some(true)
    );
    let refund = set.find("shop.refund_order").unwrap();
    assert_eq!(refund.hints.destructive, Some(true));

    let reply = world.call("shop.list_orders", "{}").await;
    assert_says(&reply.content, &["A-16", "A-17", "A-18"]);
    let reply = world.call("shop.get_order", r#"{"order_id":"A-17"}"#).await;
    assert_says(&reply.content, &["Ada Brandt", "49.90"]);

    // The same idempotency key twice, as after a crash, with the amount in both forms.
    for args in [
        r#"{"order_id":"A-17","amount":12.50}"#,
        r#"{"order_id":"A-17","amount":"12.50"}"#,
    ] {
        assert_eq!(world.toolbox.check(refund, args), Ok(()));
        let reply = world.call("shop.refund_order", args).await;
        assert_eq!(reply.outcome, ToolOutcome::Ok, "{}", reply.content);
        assert_says(&reply.content, &["37.40"]);
    }
    let order = Shop::open(state).unwrap().order("A-17").unwrap();
    assert_eq!(order.left(), Cents(3740));

    let reply = world.call("shop.get_order", r#"{"order_id":"Z-1"}"#).await;
    assert_eq!(reply.outcome, ToolOutcome::Error);
    assert_says(&reply.content, &["no order `Z-1`"]);
    for bad in [
        r#"{"order_id":"A-17","amount":-1}"#,
        r#"{"order_id":"A-17","amount":"1,5"}"#,
    ] {
        assert!(world.toolbox.check(refund, bad).is_err(), "{bad}");
    }
    world.toolbox.close().await;
}
