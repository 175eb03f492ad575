package controlplane

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
)

// Names in the data directory.
const (
	identityName = "identity"
	lockName     = "lock"
	raftDirName  = "raft"
)

// The identity file: magic, version, reserved, length, CRC32C, JSON. See
// docs/formats/identity.md.
const (
	identityMagic   = "ISID"
	identityVersion = 1
	identityHeader  = 16
	identitySizeMax = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// identity is who the node is, as kept on its disk.
type identity struct {
	Cluster     model.ClusterID   `json:"cluster,omitempty"`
	Node        model.NodeID      `json:"node,omitempty"`
	Incarnation model.Incarnation `json:"incarnation"`
	State       State             `json:"state"`
	// Forming is the agreed first membership, kept until the cluster exists.
	Forming []metadata.NewNode `json:"forming,omitempty"`
	// Fellows are the other nodes as last known, so that a node that was removed
	// while it was away finds somebody to tell it.
	Fellows []fellow `json:"fellows,omitempty"`
}

type fellow struct {
	Node    model.NodeID `json:"node"`
	Address string       `json:"address"`
}

// identityStore owns the data directory: its lock and its identity file.
type identityStore struct {
	dir  string
	lock *os.File

	mu      sync.Mutex // guards current and the file
	current identity
}

// openIdentity locks the data directory and reads or creates its identity.
func openIdentity(dir string) (*identityStore, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &Error{
				Code: CodeDataDirInUse, ExitStatus: ExitDataDirInUse, Err: err,
				Message: fmt.Sprintf("data directory %s is in use by another broker", dir),
				Advice:  "give each broker its own --data-dir, or stop the other one",
			}
		}
		return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	s := &identityStore{dir: dir, lock: lock}
	if err := s.load(); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return s, nil
}

func (s *identityStore) load() error {
	b, err := os.ReadFile(filepath.Join(s.dir, identityName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Join(s.dir, raftDirName)); err == nil {
			return Damaged(s.dir, errors.New("it holds cluster state and no identity file"))
		}
		return s.save(identity{Incarnation: model.Incarnation(uuid.NewString()), State: StateFresh})
	case err != nil:
		return fmt.Errorf("read identity: %w", err)
	}
	s.current, err = decodeIdentity(b)
	if err != nil {
		return Damaged(s.dir, err)
	}
	return nil
}

// Damaged is the error of a data directory whose identity cannot be used.
func Damaged(dir string, err error) *Error {
	return &Error{
		Code: CodeDataDirDamaged, ExitStatus: ExitWrongIdentity, Err: err,
		Message: fmt.Sprintf("data directory %s has no usable identity: %v", dir, err),
		Advice:  "restore it from a backup; or remove this node from its cluster, start it with an empty --data-dir and --join",
	}
}

func (s *identityStore) get() identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// update changes the identity; it is on the disk when update returns.
func (s *identityStore) update(change func(*identity)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.current
	change(&next)
	return s.saveLocked(next)
}

func (s *identityStore) save(id identity) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saveLocked(id)
}

// saveLocked replaces the file: a new one synced, renamed over the old one, and
// the directory synced. A crash leaves either of them whole.
func (s *identityStore) saveLocked(id identity) error {
	b, err := encodeIdentity(id)
	if err != nil {
		return err
	}
	path := filepath.Join(s.dir, identityName)
	if err := writeSynced(path+".new", b); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	if err := syncDir(s.dir); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	s.current = id
	return nil
}

func (s *identityStore) close() error { return s.lock.Close() }

func encodeIdentity(id identity) ([]byte, error) {
	body, err := json.Marshal(id)
	if err != nil {
		return nil, fmt.Errorf("encode identity: %w", err)
	}
	b := make([]byte, identityHeader, identityHeader+len(body))
	copy(b, identityMagic)
	binary.BigEndian.PutUint16(b[4:], identityVersion)
	binary.BigEndian.PutUint32(b[8:], uint32(len(body)))
	binary.BigEndian.PutUint32(b[12:], crc32.Checksum(body, castagnoli))
	return append(b, body...), nil
}

func decodeIdentity(b []byte) (identity, error) {
	var id identity
	switch {
	case len(b) < identityHeader || len(b) > identitySizeMax:
		return id, fmt.Errorf("identity file of %d bytes, expected %d to %d", len(b), identityHeader, identitySizeMax)
	case string(b[:4]) != identityMagic:
		return id, fmt.Errorf("identity file starts with %q, expected %q", b[:4], identityMagic)
	}
	if v := binary.BigEndian.Uint16(b[4:]); v != identityVersion {
		return id, fmt.Errorf("identity file of version %d, this build reads %d; run a newer build", v, identityVersion)
	}
	body := b[identityHeader:]
	if n := binary.BigEndian.Uint32(b[8:]); uint64(n) != uint64(len(body)) {
		return id, fmt.Errorf("identity file says %d bytes and has %d", n, len(body))
	}
	if got, want := crc32.Checksum(body, castagnoli), binary.BigEndian.Uint32(b[12:]); got != want {
		return id, fmt.Errorf("identity file has checksum %08x, expected %08x", got, want)
	}
	if err := json.Unmarshal(body, &id); err != nil {
		return id, fmt.Errorf("decode identity: %w", err)
	}
	switch id.State {
	case StateFresh, StateForming, StateMember, StateRemoved:
	default:
		return id, fmt.Errorf("identity file has state %q", id.State)
	}
	if id.Incarnation == "" || id.State != StateFresh && (id.Cluster == "" || id.Node <= 0) {
		return id, errors.New("identity file lacks its incarnation, cluster or node id")
	}
	return id, nil
}

func writeSynced(path string, b []byte) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(b); err != nil {
		return err
	}
	return f.Sync()
}

func syncDir(dir string) (err error) {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.Sync()
}
