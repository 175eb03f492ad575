package model

import (
	"fmt"
	"strings"
)

// DefaultNamespace is the namespace whose topics Kafka clients see by their
// bare name.
const DefaultNamespace = "default"

// maxNameLength bounds the Kafka form of a name, as Kafka does.
const maxNameLength = 249

// TopicName is the full name of a topic: /namespace/topic.
type TopicName struct {
	Namespace string
	Topic     string
}

// String prints the full name.
func (n TopicName) String() string { return "/" + n.Namespace + "/" + n.Topic }

// Kafka prints the name that Kafka clients use: "topic" for /default/topic,
// "namespace.topic" otherwise.
func (n TopicName) Kafka() string {
	if n.Namespace == DefaultNamespace {
		return n.Topic
	}
	return n.Namespace + "." + n.Topic
}

// MarshalText implements encoding.TextMarshaler.
func (n TopicName) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It does not judge the
// name's characters: stored names were judged when they were created.
func (n *TopicName) UnmarshalText(b []byte) error {
	parts := strings.Split(string(b), "/")
	if len(parts) != 3 || parts[0] != "" {
		return fmt.Errorf("topic name %q: expected /namespace/topic", b)
	}
	*n = TopicName{Namespace: parts[1], Topic: parts[2]}
	return nil
}

// ParseTopicName reads a full name (/namespace/topic), or a bare topic of the
// default namespace, and checks both parts.
func ParseTopicName(s string) (TopicName, error) {
	n := TopicName{Namespace: DefaultNamespace, Topic: s}
	if strings.HasPrefix(s, "/") {
		if err := n.UnmarshalText([]byte(s)); err != nil {
			return TopicName{}, err
		}
	}
	return n, n.Check()
}

// Check reports what is wrong with the name, or nil. Topic characters are
// Kafka's: ASCII letters, digits, '.', '_' and '-'. A namespace has no dot and no
// underscore clash with it, since the dot separates it from the topic.
func (n TopicName) Check() error {
	if err := CheckNamespace(n.Namespace); err != nil {
		return err
	}
	switch {
	case n.Topic == "":
		return fmt.Errorf("topic name %q: the topic is empty; expected /namespace/topic", n)
	case n.Topic == "." || n.Topic == "..":
		return fmt.Errorf("topic name %q: '.' and '..' are not allowed", n)
	case len(n.Kafka()) > maxNameLength:
		return fmt.Errorf("topic name %q: %d characters, at most %d are allowed", n, len(n.Kafka()), maxNameLength)
	}
	if bad := strings.IndexFunc(n.Topic, func(r rune) bool { return !legal(r) && r != '.' }); bad >= 0 {
		return fmt.Errorf("topic name %q: character %q is not allowed; use letters, digits, '.', '_' and '-'", n, n.Topic[bad:bad+1])
	}
	return nil
}

// CheckNamespace reports what is wrong with a namespace name, or nil.
func CheckNamespace(ns string) error {
	if ns == "" || len(ns) > 64 {
		return fmt.Errorf("namespace %q: expected 1 to 64 characters", ns)
	}
	if bad := strings.IndexFunc(ns, func(r rune) bool { return !legal(r) }); bad >= 0 {
		return fmt.Errorf("namespace %q: character %q is not allowed; use letters, digits, '_' and '-'", ns, ns[bad:bad+1])
	}
	return nil
}

func legal(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}
