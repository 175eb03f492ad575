package setups

import "context"

// Build is one build of the broker's binary, as evidence names it.
type Build struct {
	Path string `json:"path"`
	// Version is what the binary says of itself; "" where it cannot be run on this
	// machine, so that only a broker can tell.
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
}

// Upgrader is a Cluster whose brokers can be given another build, one at a time.
type Upgrader interface {
	// Upgrade has the stopped broker start from now on with that binary, on the
	// data that it has. A binary that cannot run there is an error and changes
	// nothing. Brokers that are added later start with the first build.
	Upgrade(ctx context.Context, name, binary string) error
}

// Builder is a Cluster that knows what its brokers run, and can find or build
// another version of it.
type Builder interface {
	// Builds returns the build that brokers are first started with, and the one to
	// upgrade to: the given file, or else the same source built with another
	// version. Where there is neither, or the two say the same version, it is
	// refused.
	Builds(ctx context.Context, upgrade string) (first, next Build, err error)
}

// As finds what implements an optional interface in a cluster, or in the one
// that it wraps.
func As[T any](c Cluster) (T, bool) {
	for c != nil {
		if found, ok := c.(T); ok {
			return found, true
		}
		wrapper, ok := c.(interface{ Unwrap() Cluster })
		if !ok {
			break
		}
		c = wrapper.Unwrap()
	}
	var none T
	return none, false
}
