// Package setups is what every way of standing a cluster up has in common: one
// interface, implemented by one package for each way (setups/process now). A
// setup owns what it starts and nothing else.
package setups

import (
	"context"
	"time"
)

// Setup is one way of standing clusters up.
type Setup interface {
	// Name is the word for --setup.
	Name() string
	// Check says what is missing on this machine; no finding with Fatal set means
	// that clusters can be started.
	Check(ctx context.Context) []Finding
	// New prepares a cluster under options.Dir and starts nothing. It may build
	// what the brokers need; an error is an environment that cannot run it.
	New(ctx context.Context, options Options) (Cluster, error)
}

// Configured is a Setup that was given more than its name.
type Configured interface {
	// Flags are the words of a command line that make the same setup again,
	// beside --setup.
	Flags() []string
}

// Options of a new cluster.
type Options struct {
	// Dir is the run's own directory. Brokers keep everything below it.
	Dir string
	// CacheDir is shared by runs, for what is expensive to make.
	CacheDir string
	// Binary is the ister binary to use; "" lets the setup find or build one.
	Binary string
	// Say reports progress in one line.
	Say func(string)
}

// Finding is one result of a check of the environment.
type Finding struct {
	Code    string `json:"code"`
	OK      bool   `json:"ok"`
	Fatal   bool   `json:"fatal"` // not OK, and nothing can run without it
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// Broker is one broker of a cluster, running or not. Addresses are host:port as
// clients on this machine reach them.
type Broker struct {
	Name    string `json:"name"` // b1, b2, ... in order of their first start
	Kafka   string `json:"kafka"`
	Admin   string `json:"admin"`
	Raft    string `json:"raft"`
	Metrics string `json:"metrics"`
	LogFile string `json:"log_file"`
	Running bool   `json:"running"`
}

// Exit is how a broker ended.
type Exit struct {
	Code   int    `json:"code"` // -1 after a signal
	Signal string `json:"signal,omitempty"`
}

// Cluster is a set of brokers that belong together. Its methods may be called
// from one goroutine at a time; Close may be called at any time, and again.
type Cluster interface {
	// Binary identifies what the brokers run: a path or an image, and a digest.
	Binary() (name, digest string)
	// Form starts n brokers that form one cluster, and returns when each answers
	// that it is ready. It is called once.
	Form(ctx context.Context, n int) ([]Broker, error)
	// Add starts one more broker that waits to be added, and returns when its
	// admin port answers.
	Add(ctx context.Context) (Broker, error)
	// Start starts a stopped or killed broker again on its data. It returns once
	// the admin port answers, or with the exit when the broker ended before that.
	Start(ctx context.Context, name string) (*Exit, error)
	// Stop asks a broker to end in order and waits; after grace it is killed.
	Stop(ctx context.Context, name string, grace time.Duration) (Exit, error)
	// Kill ends a broker at once, as a crash does.
	Kill(ctx context.Context, name string) error
	// Pause and Resume freeze and thaw a broker.
	Pause(name string) error
	Resume(name string) error
	// Brokers lists all brokers by name.
	Brokers() []Broker
	// Close ends everything that was started, and says what it could not end.
	Close(ctx context.Context) (leftovers []string)
}

// Borrowed is a Cluster that is somebody else's. A run sees before its first
// change that nothing is in its way, and Close takes back what it made.
type Borrowed interface {
	// Existing are those of the topics, as Kafka clients name them, that the
	// cluster has.
	Existing(ctx context.Context, topics []string) ([]string, error)
	// Note keeps durably what is known of a topic that the run creates: Making
	// before the request, then Made or NotMade. Only what is Made is deleted; what
	// stays Making is reported as left behind when it exists.
	Note(topic string, state TopicState) error
}

// TopicState is what is known of a topic of a run on a Borrowed cluster.
type TopicState string

// The states.
const (
	TopicMaking  TopicState = "making"
	TopicMade    TopicState = "made"
	TopicNotMade TopicState = "not_made"
)
