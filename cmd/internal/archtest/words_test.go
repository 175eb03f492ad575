package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// banned maps words that would give a thing a second name to the one it has.
// They are matched as whole words and as parts of identifiers.
var banned = map[string]string{
	"master": "controller or leader", "slave": "follower", "nonvoter": "learner",
	"shard": "partition", "whitelist": "allow list", "blacklist": "deny list",
}

// foreign are names that belong to a library or a protocol and are quoted as
// they are.
var foreign = regexp.MustCompile(`AddNonvoter|raft\.Nonvoter|NonVoter|Nonvoter|RegisterObserver|NewObserver|raft\.Observer|DeregisterObserver|prometheus\.Observer|attrs\.MasterIndex|(?i)sharded lock`)

func TestVocabulary(t *testing.T) {
	root := "../../.."
	out, err := exec.Command("git", "-C", root, "ls-files", "*.go", "*.md", "*.yaml", "*.proto").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(out)) {
		if strings.HasPrefix(name, "cmd/internal/archtest/") || strings.HasSuffix(name, ".pb.go") {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue // deleted in the work tree, not committed yet
		}
		for i, line := range strings.Split(string(raw), "\n") {
			low := strings.ToLower(foreign.ReplaceAllString(line, ""))
			for word, use := range banned {
				if strings.Contains(low, word) {
					t.Errorf("%s:%d: %q: the word is %s", name, i+1, word, use)
				}
			}
		}
	}
}
