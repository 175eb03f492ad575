package report

import (
	"encoding/json"
	"io"
)

// Display shows a run as it goes, and its result.
type Display interface {
	Sink
	Summary(*Run)
	// Close ends the display where no summary does. It may be called again.
	Close()
}

// NDJSON shows a run as the lines of its events.ndjson.
type NDJSON struct{ Out io.Writer }

// Event implements Sink. An output that went away does not end the run.
func (n NDJSON) Event(e Event) {
	encoder := json.NewEncoder(n.Out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(e)
}

// Summary implements Display: the last event has the verdict.
func (NDJSON) Summary(*Run) {}

// Close implements Display.
func (NDJSON) Close() {}
