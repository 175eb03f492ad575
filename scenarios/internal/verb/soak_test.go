package verb

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestEveryCycleOfASoakHasEverySortOnceInTheOrderOfItsSeed(t *testing.T) {
	order := func(seed uint64) (names []string) {
		s := &soak{rng: rand.New(rand.NewPCG(seed, 3))}
		for range 2 * len(disturbances) {
			names = append(names, s.pick().name)
		}
		return names
	}
	a := order(7)
	if !slices.Equal(a, order(7)) || slices.Equal(a, order(8)) {
		t.Error("the seed does not give the order")
	}
	for _, cycle := range [][]string{a[:len(disturbances)], a[len(disturbances):]} {
		sorted := slices.Sorted(slices.Values(cycle))
		if len(slices.Compact(sorted)) != len(disturbances) {
			t.Errorf("cycle %v", cycle)
		}
	}
}

func TestTimesOfASoakAreBounded(t *testing.T) {
	s := &soak{rng: rand.New(rand.NewPCG(1, 3))}
	for range 1000 {
		if d := s.some(4 * time.Second); d < time.Second || d >= 4*time.Second {
			t.Fatalf("%s", d)
		}
	}
}

func TestASoakKeepsItsLastLinesOnly(t *testing.T) {
	s := &soak{env: &Env{Say: func(string) {}}, done: map[string]int{"kill": 2, "move": 1}}
	for n := range soakLogMax + 5 {
		s.say("line %d", n)
	}
	if len(s.out.Log) != soakLogMax || s.out.Log[0] != "line 5" {
		t.Errorf("%d lines, from %s", len(s.out.Log), s.out.Log[0])
	}
	if out := s.result(); out.Mix != "kill 2, move 1" || out.Kinds != 2 {
		t.Errorf("%+v", out)
	}
}

func TestMetricsAreReadByTheirWholeName(t *testing.T) {
	page := "# HELP process_open_fds x\nprocess_open_fds_max 9\nprocess_open_fds 42\nprocess_resident_memory_bytes 1.5e+07\nbroken x\n"
	for name, want := range map[string]float64{"process_open_fds": 42, "process_resident_memory_bytes": 1.5e7} {
		if got, ok := metricOf(page, name); !ok || got != want {
			t.Errorf("%s is %v, %v", name, got, ok)
		}
	}
	for _, name := range []string{"process_open", "broken", "none"} {
		if got, ok := metricOf(page, name); ok {
			t.Errorf("%s is %v", name, got)
		}
	}
}
