package spec

import (
	"fmt"
	"regexp"
	"strconv"

	"gopkg.in/yaml.v3"

	"github.com/ister-mq/ister/setups"
)

// sizePattern is a number of bytes with its unit.
const sizePattern = `^[1-9][0-9]*(KiB|MiB|GiB)$`

var (
	size  = regexp.MustCompile(`^([1-9][0-9]*)(KiB|MiB|GiB)$`)
	units = map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
)

// diskBytesMax bounds the disk of a broker, which is kept in memory.
const diskBytesMax = 64 << 30

// ParseSize reads a number of bytes such as 384MiB.
func ParseSize(text string) (int64, error) {
	m := size.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%q is not a size such as 384MiB or 1GiB", text)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > (1<<62)/units[m[2]] {
		return 0, fmt.Errorf("%q is too large", text)
	}
	return n * units[m[2]], nil
}

// cluster reads the cluster section into s.
func (r *reader) cluster(node *yaml.Node, s *Scenario) {
	if node == nil {
		return // told as a missing key
	}
	m := r.members(node, "cluster", clusterKeys...)
	s.Brokers = r.count(m["brokers"], 1)
	s.Limits = setups.Limits{Links: r.word(m["links"], []string{"true", "false"}) == "true", DiskBytes: r.disk(m["disk"])}
	r.limits = s.Limits
}

// limited checks that the cluster section gives what a step's verb needs.
func (r *reader) limited(use *yaml.Node, s *Step) {
	if s.Verb.Limits.Links && !r.limits.Links {
		r.problem(use, RuleReference, fmt.Sprintf("%s needs links between the brokers, and the cluster section gives none", s.Use), "write cluster: {brokers: 3, links: true}")
	}
	if s.Verb.Limits.Disk && r.limits.DiskBytes == 0 {
		r.problem(use, RuleReference, fmt.Sprintf("%s needs a disk of its own for each broker, and the cluster section gives none", s.Use), "write cluster: {brokers: 3, disk: 384MiB}")
	}
}

func (r *reader) disk(node *yaml.Node) int64 {
	if node == nil {
		return 0
	}
	bytes, err := ParseSize(r.text(node))
	if err == nil && (bytes < setups.MinDiskBytes || bytes > diskBytesMax) {
		err = fmt.Errorf("a disk of %s is out of bounds: at least %dMiB, since brokers keep a reserve of 256MiB, at most %dGiB", node.Value, setups.MinDiskBytes>>20, diskBytesMax>>30)
	}
	if err != nil {
		r.problem(node, RuleValue, err.Error(), "")
	}
	return bytes
}
