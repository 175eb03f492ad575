package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"sort"
	"strings"
	"sync"
)

// Memory is a file system in memory that remembers what has been made durable, so
// that CrashClone can show what a power failure would leave. The zero value is not
// usable; call NewMemory. The root and the working directory exist.
type Memory struct {
	mu    sync.Mutex
	root  *memoryNode
	locks map[string]bool
	free  int64
}

var _ FS = (*Memory)(nil)

// memoryNode is a file or directory. Open files keep their node when its name goes.
type memoryNode struct {
	dir bool

	data    []byte
	durable []byte        // data as of the last Sync
	changes []memoryWrite // since the last Sync, in order

	names        map[string]*memoryNode
	durableNames map[string]*memoryNode
	nameChanges  []memoryName // since the last SyncDir, in order
}

// memoryWrite is one WriteAt, or a Truncate when data is nil.
type memoryWrite struct {
	at   int64
	data []byte
}

// memoryName is one change of a directory: the names that it set, nil for removed.
type memoryName struct {
	set map[string]*memoryNode
}

const memorySpace = 1 << 40

// NewMemory makes an empty file system.
func NewMemory() *Memory {
	return &Memory{root: newDirectory(), locks: map[string]bool{}, free: memorySpace}
}

func newDirectory() *memoryNode {
	return &memoryNode{dir: true, names: map[string]*memoryNode{}, durableNames: map[string]*memoryNode{}}
}

// SetFree bounds the bytes that may still be allocated; beyond it writes fail with
// an error that says that there is no space left.
func (m *Memory) SetFree(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free = bytes
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// find walks to a node; m.mu is held.
func (m *Memory) find(name string) *memoryNode {
	node := m.root
	for _, part := range strings.Split(path.Clean(name), "/") {
		if part == "" || part == "." {
			continue
		}
		if !node.dir {
			return nil
		}
		if node = node.names[part]; node == nil {
			return nil
		}
	}
	return node
}

// parent finds the directory that holds name; m.mu is held.
func (m *Memory) parent(name string) (*memoryNode, string) {
	clean := path.Clean(name)
	dir := m.find(path.Dir(clean))
	if dir == nil || !dir.dir {
		return nil, ""
	}
	return dir, path.Base(clean)
}

func (n *memoryNode) change(set map[string]*memoryNode) {
	for name, node := range set {
		if node == nil {
			delete(n.names, name)
		} else {
			n.names[name] = node
		}
	}
	n.nameChanges = append(n.nameChanges, memoryName{set})
}

// Create implements FS.
func (m *Memory) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base := m.parent(name)
	if dir == nil {
		return nil, pathError("open", name, fs.ErrNotExist)
	}
	if dir.names[base] != nil {
		return nil, pathError("open", name, fs.ErrExist)
	}
	node := &memoryNode{}
	dir.change(map[string]*memoryNode{base: node})
	return &memoryFile{m: m, node: node, name: name}, nil
}

// Open implements FS.
func (m *Memory) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.find(name)
	if node == nil {
		return nil, pathError("open", name, fs.ErrNotExist)
	}
	if node.dir {
		return nil, pathError("open", name, fmt.Errorf("is a directory"))
	}
	return &memoryFile{m: m, node: node, name: name}, nil
}

// Remove implements FS.
func (m *Memory) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base := m.parent(name)
	if dir == nil || dir.names[base] == nil {
		return pathError("remove", name, fs.ErrNotExist)
	}
	if len(dir.names[base].names) > 0 {
		return pathError("remove", name, fmt.Errorf("directory not empty"))
	}
	dir.change(map[string]*memoryNode{base: nil})
	return nil
}

// RemoveAll implements FS.
func (m *Memory) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base := m.parent(name)
	if dir == nil || dir.names[base] == nil {
		return nil
	}
	dir.change(map[string]*memoryNode{base: nil})
	return nil
}

// Rename implements FS. Across directories the change belongs to the target, and
// the source's removal is a change of its own, as two journals would have it.
func (m *Memory) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	source, sourceBase := m.parent(from)
	target, targetBase := m.parent(to)
	if source == nil || source.names[sourceBase] == nil || target == nil {
		return pathError("rename", from, fs.ErrNotExist)
	}
	node := source.names[sourceBase]
	if old := target.names[targetBase]; old != nil && old != node && (len(old.names) > 0 || old.dir != node.dir) {
		return pathError("rename", to, fs.ErrExist)
	}
	if source == target {
		if sourceBase != targetBase {
			source.change(map[string]*memoryNode{sourceBase: nil, targetBase: node})
		}
		return nil
	}
	target.change(map[string]*memoryNode{targetBase: node})
	source.change(map[string]*memoryNode{sourceBase: nil})
	return nil
}

// MkdirAll implements FS.
func (m *Memory) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.root
	for _, part := range strings.Split(path.Clean(name), "/") {
		if part == "" || part == "." {
			continue
		}
		next := node.names[part]
		if next == nil {
			next = newDirectory()
			node.change(map[string]*memoryNode{part: next})
		}
		if !next.dir {
			return pathError("mkdir", name, fmt.Errorf("not a directory"))
		}
		node = next
	}
	return nil
}

// List implements FS.
func (m *Memory) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.find(dir)
	if node == nil {
		return nil, pathError("open", dir, fs.ErrNotExist)
	}
	if !node.dir {
		return nil, pathError("readdir", dir, fmt.Errorf("not a directory"))
	}
	names := make([]string, 0, len(node.names))
	for name := range node.names {
		names = append(names, name)
	}
	sort.Strings(names)
	return names, nil
}

// Stat implements FS.
func (m *Memory) Stat(name string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.find(name)
	if node == nil {
		return Info{}, pathError("stat", name, fs.ErrNotExist)
	}
	return Info{Dir: node.dir, Bytes: int64(len(node.data))}, nil
}

// SyncDir implements FS.
func (m *Memory) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.find(dir)
	if node == nil || !node.dir {
		return pathError("sync", dir, fs.ErrNotExist)
	}
	if len(node.nameChanges) > 0 {
		node.durableNames = make(map[string]*memoryNode, len(node.names))
		for name, child := range node.names {
			node.durableNames[name] = child
		}
		node.nameChanges = nil
	}
	return nil
}

// Space implements FS.
func (m *Memory) Space(string) (Space, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Space{Total: memorySpace, Free: m.free}, nil
}

type memoryLock struct {
	m    *Memory
	name string
}

func (l memoryLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	delete(l.m.locks, l.name)
	return nil
}

// Lock implements FS; the lock lives in the file system's memory only.
func (m *Memory) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if dir, _ := m.parent(name); dir == nil {
		return nil, pathError("lock", name, fs.ErrNotExist)
	}
	if m.locks[name] {
		return nil, ErrLocked
	}
	m.locks[name] = true
	return memoryLock{m, name}, nil
}

type memoryFile struct {
	m      *Memory
	node   *memoryNode
	name   string
	closed bool // guarded by m.mu
}

// use checks that the file is open; m.mu is held.
func (f *memoryFile) use(op string) error {
	if f.closed {
		return pathError(op, f.name, fs.ErrClosed)
	}
	return nil
}

func (f *memoryFile) ReadAt(b []byte, at int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.use("read"); err != nil {
		return 0, err
	}
	if at < 0 {
		return 0, pathError("read", f.name, fs.ErrInvalid)
	}
	if at >= int64(len(f.node.data)) {
		if len(b) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	n := copy(b, f.node.data[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memoryFile) WriteAt(b []byte, at int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.use("write"); err != nil {
		return 0, err
	}
	if at < 0 {
		return 0, pathError("write", f.name, fs.ErrInvalid)
	}
	if growth := at + int64(len(b)) - int64(len(f.node.data)); growth > 0 {
		if growth > f.m.free {
			return 0, pathError("write", f.name, errNoSpace)
		}
		f.m.free -= growth
	}
	change := memoryWrite{at: at, data: append([]byte{}, b...)}
	f.node.data = change.apply(f.node.data)
	f.node.changes = append(f.node.changes, change)
	return len(b), nil
}

func (w memoryWrite) apply(data []byte) []byte {
	if w.data == nil { // a truncation
		if w.at <= int64(len(data)) {
			// Cut the capacity too: growing again must show zeros, not old bytes.
			return data[:w.at:w.at]
		}
		return append(data, make([]byte, w.at-int64(len(data)))...)
	}
	if end := w.at + int64(len(w.data)); end > int64(len(data)) {
		data = append(data, make([]byte, end-int64(len(data)))...)
	}
	copy(data[w.at:], w.data)
	return data
}

func (f *memoryFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return int64(len(f.node.data)), f.use("stat")
}

func (f *memoryFile) Truncate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.use("truncate"); err != nil {
		return err
	}
	if size < 0 {
		return pathError("truncate", f.name, fs.ErrInvalid)
	}
	change := memoryWrite{at: size}
	f.node.data = change.apply(f.node.data)
	f.node.changes = append(f.node.changes, change)
	return nil
}

func (f *memoryFile) Sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.use("sync"); err != nil {
		return err
	}
	f.node.settle()
	return nil
}

// settle makes the file's content durable. Applying the changes to the durable
// bytes costs what was written, not what the file holds.
func (n *memoryNode) settle() {
	for _, change := range n.changes {
		n.durable = change.apply(n.durable)
	}
	n.changes = nil
}

func (f *memoryFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.use("close"); err != nil {
		return err
	}
	f.closed = true
	return nil
}
