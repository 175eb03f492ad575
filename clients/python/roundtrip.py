#!/usr/bin/python3
"""Writes records to a topic of Ister, reads them back and compares.

Usage: roundtrip.py [--library confluent_kafka|kafka] [--brokers HOST:PORT,...]
       [--topic NAME] [--records N] [--codec none|gzip|snappy|lz4|zstd]

Exit status: 0 identical, 1 not, 4 the library is not installed.
"""
import argparse
import sys


def records(count):
    return [(b"key-%d" % (i % 8), b"value-%d" % i) for i in range(count)]


def with_confluent_kafka(arguments):
    """confluent-kafka, which is librdkafka."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

    acknowledged = []
    producer = Producer({
        "bootstrap.servers": arguments.brokers,
        "enable.idempotence": True,  # and with it acks=all
        "compression.type": arguments.codec,
    })

    def delivered(problem, message):
        if problem is not None:
            raise SystemExit("write: %s" % problem)
        acknowledged.append((message.partition(), message.offset(), message.key(), message.value()))

    for key, value in records(arguments.records):
        producer.produce(arguments.topic, value, key, on_delivery=delivered)
        producer.poll(0)
    if producer.flush(30) > 0:
        raise SystemExit("write: not acknowledged within 30 s")

    # Consumer groups are not served yet: partitions are assigned, nothing is
    # committed. The library wants a group.id all the same.
    consumer = Consumer({"bootstrap.servers": arguments.brokers, "group.id": "none", "enable.auto.commit": False})
    first = {}
    for partition, offset, _, _ in acknowledged:
        first[partition] = min(offset, first.get(partition, offset))
    consumer.assign([TopicPartition(arguments.topic, p, o) for p, o in first.items()] or [TopicPartition(arguments.topic, 0, OFFSET_BEGINNING)])
    read = {}
    while len(read) < len(acknowledged):
        message = consumer.poll(30)
        if message is None:
            raise SystemExit("read: nothing more within 30 s, %d of %d" % (len(read), len(acknowledged)))
        if message.error():
            raise SystemExit("read: %s" % message.error())
        read[message.partition(), message.offset()] = (message.key(), message.value())
    consumer.close()
    return acknowledged, read


def with_kafka(arguments):
    """kafka-python, which is Python alone."""
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    codec = None if arguments.codec == "none" else arguments.codec
    # The version is given, since finding it out is a round of failing requests.
    common = {"bootstrap_servers": arguments.brokers.split(","), "api_version": (2, 4, 0)}
    producer = KafkaProducer(acks="all", retries=5, max_in_flight_requests_per_connection=1, compression_type=codec, **common)
    sent = [(key, value, producer.send(arguments.topic, value, key)) for key, value in records(arguments.records)]
    acknowledged = []
    for key, value, future in sent:
        done = future.get(timeout=30)
        acknowledged.append((done.partition, done.offset, key, value))
    producer.close()

    consumer = KafkaConsumer(group_id=None, consumer_timeout_ms=30000, **common)
    first = {}
    for partition, offset, _, _ in acknowledged:
        first[partition] = min(offset, first.get(partition, offset))
    consumer.assign([TopicPartition(arguments.topic, p) for p in first])
    for partition, offset in first.items():
        consumer.seek(TopicPartition(arguments.topic, partition), offset)
    read = {}
    for message in consumer:
        read[message.partition, message.offset] = (message.key, message.value)
        if len(read) == len(acknowledged):
            break
    consumer.close()
    return acknowledged, read


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", choices=["confluent_kafka", "kafka"], default="confluent_kafka")
    parser.add_argument("--brokers", default="127.0.0.1:6650")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--codec", choices=["none", "gzip", "snappy", "lz4", "zstd"], default="none")
    arguments = parser.parse_args()
    try:
        acknowledged, read = with_kafka(arguments) if arguments.library == "kafka" else with_confluent_kafka(arguments)
    except ImportError as problem:
        print("%s (Debian: apt-get install python3-confluent-kafka python3-kafka)" % problem, file=sys.stderr)
        return 4
    for partition, offset, key, value in acknowledged:
        if read.get((partition, offset)) != (key, value):
            print("offset %d of partition %d: wrote %s, read %s" % (offset, partition, (key, value), read.get((partition, offset))), file=sys.stderr)
            return 1
    print("%s: %d records written and read back, identical" % (arguments.library, len(acknowledged)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
