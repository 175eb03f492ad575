package setups

import "context"

// Cleaner is a Setup that can remove what one of its runs left, from the run's
// directory alone: also after the runner was killed, and again.
type Cleaner interface {
	// Clean removes what the run in dir made outside dir, and returns what it
	// could not remove. It touches nothing of other runs.
	Clean(ctx context.Context, dir string) (leftovers []string, err error)
}
