package setups_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ister-mq/ister/setups"
)

func TestRunsOfTheSameIDHaveOwnersOfTheirOwn(t *testing.T) {
	one, other := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "run")
	if owner, err := setups.Owner(one); owner != "" || err != nil {
		t.Fatalf("before anything is made: %q, %v", owner, err)
	}
	mark, err := setups.Own(one)
	if err != nil {
		t.Fatal(err)
	}
	if read, err := setups.Owner(one); err != nil || read != mark {
		t.Errorf("read %q, %v, want %q", read, err, mark)
	}
	if again, err := setups.Own(one); err != nil || again != mark {
		t.Errorf("again %q, %v, want %q", again, err, mark)
	}
	if others, err := setups.Own(other); err != nil || others == mark {
		t.Errorf("another run's is %q, %v", others, err)
	}
}

// A mark that is gone or not one must never match what others made.
func TestAnOwnerThatCannotBeReadIsAnError(t *testing.T) {
	for _, text := range []string{"", "\n", "1234567\n", "*\n", "../../..\n", "0123456789\n"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, setups.OwnerFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if owner, err := setups.Owner(dir); owner != "" || err == nil || !strings.Contains(err.Error(), "nothing is removed") {
			t.Errorf("%q: %q, %v", text, owner, err)
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "brokers"), 0o755); err != nil {
		t.Fatal(err)
	}
	if owner, err := setups.Owner(dir); owner != "" || err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("gone: %q, %v", owner, err)
	}
}
