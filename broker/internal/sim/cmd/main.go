// Command cmd simulates whole clusters; `make sim` calls it. It exits 0 when all
// seeds held, 1 when one did not, and 2 on a wrong command line.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/ister-mq/ister/broker/internal/sim"
)

// reportsMax bounds how many failures are printed with their traces.
const reportsMax = 3

func main() {
	seed := flag.Uint64("seed", 0, "simulate this seed alone")
	trace := flag.Bool("trace", false, "print the whole trace of -seed")
	first := flag.Uint64("first", 1, "the first of the seeds")
	seeds := flag.Int("seeds", 200, "how many seeds to simulate")
	expect := flag.Bool("expect-failure", false, "succeed only if a promise is found broken: a bug is planted")
	flag.Parse()
	if flag.NArg() > 0 || *seeds < 1 || *trace && *seed == 0 {
		flag.Usage()
		os.Exit(2)
	}
	switch {
	case *seed != 0:
		os.Exit(one(*seed, *trace))
	case *expect:
		os.Exit(planted(*first, *seeds))
	}
	os.Exit(many(*first, *seeds))
}

func one(seed uint64, trace bool) int {
	cfg := sim.Config{}
	if trace {
		cfg.TraceTo = func(line string) { fmt.Println(line) }
	}
	r := sim.Run(seed, cfg)
	fmt.Printf("seed %d: trace hash %016x\n%v\n", seed, r.Hash, r.Counts)
	if r.Violation != nil {
		fmt.Printf("seed %d: %v\n", seed, r.Violation)
		return 1
	}
	return 0
}

func many(first uint64, n int) int {
	began := time.Now()
	var total sim.Counts
	failed := 0
	for r := range sim.RunMany(first, n, sim.Config{}) {
		total.Add(r.Counts)
		if r.Violation == nil {
			continue
		}
		if failed++; failed <= reportsMax {
			fmt.Print(r.Report())
		} else {
			fmt.Printf("seed %d: %v\n", r.Seed, r.Violation)
		}
	}
	fmt.Printf("%d seeds, %d failed, in %v\n%v\n", n, failed, time.Since(began).Round(time.Millisecond), total)
	if failed > 0 {
		return 1
	}
	return 0
}

// planted looks for a broken promise; want of progress does not count.
func planted(first uint64, n int) int {
	ran := 0
	for r := range sim.RunMany(first, n, sim.Config{}) {
		ran++
		if r.Violation != nil && r.Violation.Invariant != "live" {
			fmt.Printf("caught after %d seeds: seed %d: %v\n", ran, r.Seed, r.Violation)
			return 0
		}
	}
	fmt.Printf("%d seeds did not catch the planted bug\n", ran)
	return 1
}
