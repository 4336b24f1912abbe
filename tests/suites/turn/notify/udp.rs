//! Notifications as UDP datagrams, over the loopback and in real time.

use std::net::UdpSocket;
use std::time::Duration;

use fairlock::embedded::Engine;
use fairlock::{LockClient, Notifier, RecordWait, UdpNotifier};
use fairlock_testkit::real_time;

fn client(engine: &Engine) -> LockClient {
    let notifier = UdpNotifier::bind("127.0.0.1:0").unwrap();
    let builder = LockClient::builder(engine.client()).notifier(notifier);
    builder.build().unwrap()
}

#[test]
fn a_datagram_arrives_as_it_was_sent_and_one_for_nowhere_is_lost() {
    real_time(async {
        let [from, to] = [(); 2].map(|()| UdpNotifier::bind("127.0.0.1:0").unwrap());
        for nowhere in [
            "",
            "nowhere",
            "localhost:1",
            "127.0.0.1:1",
            "999.1.1.1:5",
            "[::1]",
        ] {
            from.send(nowhere, b"lost");
        }
        from.send(&to.address(), b"found");
        assert_eq!(to.receive().await, b"found");
        assert!(UdpNotifier::bind("0.0.0.0:0").is_err());
        assert!(UdpNotifier::bind_as("127.0.0.1:0", "0.0.0.0:7".parse().unwrap()).is_err());
        let published = "192.0.2.1:0".parse().unwrap();
        let told = UdpNotifier::bind_as("127.0.0.1:0", published)
            .unwrap()
            .address();
        assert!(
            told.starts_with("192.0.2.1:") && !told.ends_with(":0"),
            "{told}"
        );
    });
}

#[test]
fn clients_that_notify_each_other_by_udp_poll_little_whatever_else_arrives() {
    real_time(async {
        let engine = Engine::memory().unwrap();
        let holder = client(&engine);
        holder.create_table().await.unwrap();
        let guard = holder
            .fair_lock("a")
            .unwrap()
            .acquire(RecordWait::Infinite)
            .await
            .unwrap();
        let network = fairlock::embedded::Network::to(&engine);
        let notifier = UdpNotifier::bind("127.0.0.1:0").unwrap();
        let address = notifier.address();
        let successor = LockClient::builder(network.client())
            .notifier(notifier)
            .build()
            .unwrap();
        let lock = successor.fair_lock("a").unwrap();
        let waiting = tokio::spawn(async move { lock.acquire(RecordWait::Infinite).await });
        // Anybody can send anything to the port.
        let anybody = UdpSocket::bind("127.0.0.1:0").unwrap();
        for length in 0..300_usize {
            anybody.send_to(&vec![b'f'; length], &address).unwrap();
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = network.counts().requests();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let polls = network.counts().requests() - before;
        // By polling alone it sends one each twentieth of the hold: some fourteen in this time.
        assert!(polls <= 3, "{polls}");
        guard.release().await.unwrap();
        let next = waiting.await.unwrap().unwrap();
        next.release().await.unwrap();
        let counts = successor.notification_counts().unwrap();
        let [sent, received, dropped] = counts;
        assert!(sent > 0 && received > dropped && dropped > 0, "{counts:?}");
    });
}
