package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestEveryProductIsInTheBinary(t *testing.T) {
	var out, errOut bytes.Buffer
	if status := run(context.Background(), []string{"--help"}, &out, &errOut); status != 0 {
		t.Fatalf("status %d: %s", status, errOut.String())
	}
	for _, word := range []string{"broker", "admin", "scenario", "version", "completion"} {
		if !strings.Contains(out.String(), "\n  "+word+" ") {
			t.Errorf("help does not list %s:\n%s", word, out.String())
		}
	}
}

func TestWrongUsageExitsWithTwoAndSaysWhatToDo(t *testing.T) {
	for _, args := range [][]string{{"brokr"}, {"broker", "--datadir", "x"}, {"broker", "extra"}, {"admin", "clustr"}, {"version", "--loud"}} {
		var out, errOut bytes.Buffer
		if status := run(context.Background(), args, &out, &errOut); status != 2 || errOut.Len() == 0 {
			t.Errorf("%v: status %d, printed %q", args, status, errOut.String())
		}
	}
}

func TestBrokerHelpNamesEverySetting(t *testing.T) {
	var out, errOut bytes.Buffer
	run(context.Background(), []string{"broker", "--help"}, &out, &errOut)
	for _, flag := range []string{"--data-dir", "--broker-addr", "--admin-addr", "--raft-addr", "--prom-exporter", "--seed-nodes", "--join", "--config-file", "--node-id"} {
		if !strings.Contains(out.String(), flag) {
			t.Errorf("%s is missing", flag)
		}
	}
}

func TestVersionPrintsOneLine(t *testing.T) {
	var out, errOut bytes.Buffer
	if status := run(context.Background(), []string{"version"}, &out, &errOut); status != 0 || strings.Count(out.String(), "\n") != 1 {
		t.Fatalf("status %d: %q", status, out.String())
	}
}
