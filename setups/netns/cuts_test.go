package netns

import (
	"testing"

	"github.com/ister-mq/ister/setups"
)

func TestWhatIsCutAndWhatIsNot(t *testing.T) {
	ends := []string{"b1", "b2", "b3", "hub"}
	for _, c := range []struct {
		name string
		cut  setups.Cut
		lost func(from, to string) bool
	}{
		{"off from all", setups.Cut{Broker: "b2"}, func(from, to string) bool { return from == "b2" || to == "b2" }},
		{"both, said", setups.Cut{Broker: "b2", Direction: setups.Both}, func(from, to string) bool { return from == "b2" || to == "b2" }},
		{"deaf", setups.Cut{Broker: "b2", Direction: setups.In}, func(_, to string) bool { return to == "b2" }},
		{"mute", setups.Cut{Broker: "b2", Direction: setups.Out}, func(from, _ string) bool { return from == "b2" }},
		{"one peer", setups.Cut{Broker: "b2", Peer: "b3"}, func(from, to string) bool { return from == "b2" && to == "b3" || from == "b3" && to == "b2" }},
		{"mute to one peer", setups.Cut{Broker: "b2", Peer: "b3", Direction: setups.Out}, func(from, to string) bool { return from == "b2" && to == "b3" }},
	} {
		var known cuts
		known.add(c.cut)
		for _, from := range ends {
			for _, to := range ends {
				if from != to && known.lost(from, to) != c.lost(from, to) {
					t.Errorf("%s: %s to %s: lost %v", c.name, from, to, known.lost(from, to))
				}
			}
		}
		known.heal("b1")
		if !known.lost("b2", "b3") && c.lost("b2", "b3") {
			t.Errorf("%s: healing another broker ended it", c.name)
		}
		known.heal("b2")
		if len(known.ways) > 0 {
			t.Errorf("%s: healed, but %v is left", c.name, known.ways)
		}
	}
}
