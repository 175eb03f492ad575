// Bench prints Ister's figures on this machine: it builds the broker, starts
// three as processes on free loopback ports, loads them with a real Kafka client
// in this process, and stops them. It asserts nothing. Client and brokers share
// the cores, so the figures are of the whole machine; compare only within a run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"
)

// measure is one named measurement.
type measure struct {
	name string
	run  func(ctx context.Context, c *cluster) error
}

var measures = []measure{
	{"produce", produceFigures},
	{"consume", produceConsumeFigures},
	{"single", singleFigures},
	{"gap", gapFigures},
	{"idle", idleFigures},
}

func main() {
	only := flag.String("only", "", "comma-separated measurements: produce, consume, single, gap, idle (default all)")
	binary := flag.String("ister-bin", "", "broker binary (default: build ./cmd/ister)")
	keep := flag.Bool("keep", false, "keep the data directory and logs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *only, *binary, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only, binary string, keep bool) error {
	c, err := start(ctx, binary, keep)
	if err != nil {
		return err
	}
	defer c.stop()
	fmt.Printf("%d brokers, RF 3, min ISR 2, fsync before ack; %d cores shared with the client; %s\n",
		len(c.nodes), runtime.NumCPU(), time.Now().Format(time.DateOnly))
	for _, m := range measures {
		if only != "" && !strings.Contains(","+only+",", ","+m.name+",") {
			continue
		}
		if err := m.run(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// row prints one figure.
func row(name, value string, more ...string) {
	fmt.Printf("%-52s %14s  %s\n", name, value, strings.Join(more, "  "))
}
