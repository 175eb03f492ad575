package setups

import "context"

// Mistake is a wrong way to start a broker, which it has to refuse.
type Mistake string

// The mistakes. For the first two the broker runs, for the others it does not.
const (
	MistakeDataInUse Mistake = "data_in_use" // a second process on the broker's data
	MistakePortInUse Mistake = "port_in_use" // new data, and the broker's ports
	MistakeWiped     Mistake = "wiped"       // in the broker's place, with new data
	MistakeForeign   Mistake = "foreign"     // in the broker's place, with the data of another cluster
)

// Mistakes lists the mistakes.
var Mistakes = []Mistake{MistakeDataInUse, MistakePortInUse, MistakeWiped, MistakeForeign}

// Mistaken is how a wrong start ended.
type Mistaken struct {
	Exit Exit
	Says string // the last line of its log
}

// Mistaker is a Cluster that can start a broker wrongly.
type Mistaker interface {
	// Mistake starts one more process for a broker in a wrong way, beside the
	// broker itself, which keeps its data, and waits until that process ends. One
	// that still runs when ctx ends is killed, and is an error. What it wrote is
	// removed.
	Mistake(ctx context.Context, name string, mistake Mistake) (Mistaken, error)
}
