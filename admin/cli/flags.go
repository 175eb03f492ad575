package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/admin/adminv1"
)

// idValue is the id of a node, from 1 up.
type idValue struct {
	value *int32
}

func (v idValue) String() string {
	if v.value == nil || *v.value == 0 {
		return ""
	}
	return strconv.Itoa(int(*v.value))
}

func (v idValue) Type() string { return "id" }

func (v idValue) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > math.MaxInt32 {
		return fmt.Errorf("expected a node id from 1 to %d, as `cluster members` shows", math.MaxInt32)
	}
	*v.value = int32(n)
	return nil
}

// choiceValue is one of a few words.
type choiceValue struct {
	value   *string
	allowed []string
}

func (v choiceValue) String() string {
	if v.value == nil {
		return ""
	}
	return *v.value
}

func (v choiceValue) Type() string { return strings.Join(v.allowed, "|") }

func (v choiceValue) Set(text string) error {
	for _, a := range v.allowed {
		if text == a {
			*v.value = text
			return nil
		}
	}
	message := "expected " + strings.Join(v.allowed, ", ")
	if near := nearest(text, v.allowed); near != "" {
		message += fmt.Sprintf("; did you mean %s?", near)
	}
	return fmt.Errorf("%s", message)
}

// requireFlag refuses a command without one of its flags.
func requireFlag(command *cobra.Command, name, example string) error {
	if command.Flags().Changed(name) {
		return nil
	}
	return &usageError{message: fmt.Sprintf("missing flag --%s", name), advice: fmt.Sprintf("give it, such as: %s --%s %s", command.CommandPath(), name, example), command: command.CommandPath()}
}

// settings reads key=value pairs.
func settings(command *cobra.Command, pairs []string) (map[string]string, error) {
	out := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, &usageError{message: fmt.Sprintf("--config: got %q, expected key=value", pair), advice: "for example --config retention.ms=86400000", command: command.CommandPath()}
		}
		if _, twice := out[key]; twice {
			return nil, &usageError{message: fmt.Sprintf("--config: %s is given twice", key), advice: "give each setting once", command: command.CommandPath()}
		}
		out[key] = value
	}
	return out, nil
}

// operationID reads op-17 or 17.
func operationID(command *cobra.Command, text string) (uint64, error) {
	id, err := strconv.ParseUint(strings.TrimPrefix(text, "op-"), 10, 64)
	if err != nil || id == 0 {
		return 0, &usageError{message: fmt.Sprintf("operation id: got %q, expected op-N with N of 1 or more", text), advice: "see `cluster operations list` for the operations there are", command: command.CommandPath()}
	}
	return id, nil
}

func operationName(id uint64) string { return "op-" + strconv.FormatUint(id, 10) }

func dispatchOf(word string) adminv1.Dispatch {
	if word == "non_reliable" {
		return adminv1.Dispatch_NON_RELIABLE
	}
	return adminv1.Dispatch_RELIABLE
}
