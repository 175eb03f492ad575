// Package docker is what the setups that use a Docker engine have in common: the
// engine, an image of the static ister binary built without a registry, one
// broker's container with its log and its end, and removal by label.
//
// Everything that a run makes carries the labels of its Run, so that it is found
// and removed also after the runner was killed. Nothing else is ever touched.
// The reaper container of testcontainers is off: it would need an image from a
// registry.
//
// File map:
//
//	engine.go  the connection, and what doctor says of it
//	run.go     whose something on the engine is
//	binary.go  what a binary has to be to run on the engine
//	image.go   the image, named by the binary's digest
//	box.go     one container: start, end, freeze, log
//	fleet.go   the brokers of a cluster and their life
//	mistake.go starts that a broker must refuse
//	network.go cutting a broker off
//	disk.go    filling and freeing a volume
//	clean.go   removal by label
package docker
