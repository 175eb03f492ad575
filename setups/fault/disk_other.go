//go:build !linux

package fault

import "errors"

var errNoDisks = errors.New("file systems of a given size need Linux")

func mountable() string            { return errNoDisks.Error() }
func mount(string, int64) error    { return errNoDisks }
func unmount(string) error         { return nil }
func unmountBelow(string) []string { return nil }
func fill(string, int64) error     { return errNoDisks }
func free(string) error            { return errNoDisks }
