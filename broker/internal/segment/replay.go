package segment

import (
	"errors"
	"fmt"
	"path"
	"sort"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// maxJournalFile bounds what is read of a journal file.
const maxJournalFile = 4 << 30

// Replay says what a journal gave back to the logs.
type Replay struct {
	Entries int   // found in the journal
	Logs    int   // that got records from it
	Bytes   int64 // appended to them
	// Skipped are directories that no longer exist, or hold another log than the
	// entries came from.
	Skipped []string
	// Damaged are logs that could not take what the journal held for them. Open
	// refuses them with REPLICA_QUARANTINED; the journal's files are kept aside.
	Damaged []string
}

// replayJournal applies the journal below dir to the logs below logsDir, makes the
// result durable, and removes the journal. Doing it again after a crash half way
// gives the same.
func replayJournal(fsys vfs.FS, dir, logsDir string) (Replay, error) {
	var report Replay
	entries, found, err := readJournal(fsys, dir)
	if err != nil || !found {
		return report, err
	}
	report.Entries = len(entries)
	byName := map[string][]entry{}
	var names []string
	for _, e := range entries {
		if byName[e.Name] == nil {
			names = append(names, e.Name)
		}
		byName[e.Name] = append(byName[e.Name], e)
	}
	sort.Strings(names)
	for _, name := range names {
		if err := replayLog(fsys, path.Join(logsDir, name), byName[name], &report); err != nil {
			return report, fmt.Errorf("replay journal into %s: %w", name, err)
		}
	}
	if len(report.Damaged) > 0 {
		return report, keepJournal(fsys, dir)
	}
	return report, removeJournal(fsys, dir)
}

// readJournal returns the entries of both files in the order they were written.
func readJournal(fsys vfs.FS, dir string) (entries []entry, found bool, err error) {
	type part struct {
		generation uint64
		entries    []entry
	}
	var parts []part
	for i := range journalFiles {
		name := journalName(i)
		b, err := vfs.ReadFile(fsys, path.Join(dir, name), maxJournalFile)
		if vfs.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("read journal: %w", err)
		}
		found = true
		generation, err := decodeJournalHeader(name, b)
		if errors.As(err, new(damaged)) {
			// Either the file was about to be used anew, when all that its entries say
			// was durable elsewhere, or the header has rotted. In both cases it is
			// right to go by the entries.
			if len(b) < journalHeader {
				continue
			}
			first, ok := decodeEntry(b[journalHeader:])
			if !ok {
				continue
			}
			generation = first.Generation
		} else if err != nil {
			return nil, true, err
		}
		list, at, round := scanJournal(b, generation)
		if damagedInMiddle(b, at, generation, round) {
			return nil, true, journalDamage(name, at)
		}
		parts = append(parts, part{generation, list})
	}
	sort.Slice(parts, func(i, k int) bool { return parts[i].generation < parts[k].generation })
	for _, p := range parts {
		entries = append(entries, p.entries...)
	}
	return entries, found, nil
}

func journalDamage(name string, at int) error {
	return refusal.New(refusal.ReplicaQuarantined, name,
		fmt.Sprintf("the journal %s is damaged at byte %d, before entries that were durable; what the logs of this disk lack is unknown", name, at),
		"set the data directory aside and let the node copy its partitions again")
}

// scanJournal reads entries up to the first that is not whole, sound and of this
// generation. round is the first round of which anything may be missing.
func scanJournal(b []byte, generation uint64) (list []entry, at int, round uint64) {
	at = journalHeader
	for at < len(b) {
		e, ok := decodeEntry(b[at:])
		if !ok || e.Generation != generation {
			break
		}
		list = append(list, e)
		at += e.size()
		if round = e.Round; e.Left == 0 {
			round++
		}
	}
	return list, at, round
}

// damagedInMiddle looks behind the place where a scan stopped for an entry of a
// later round: rounds are synced one after the other, so that one proves that the
// place was sound once.
func damagedInMiddle(b []byte, at int, generation, round uint64) bool {
	for at = (at + entryAlign - 1) / entryAlign * entryAlign; at+entryHeader <= len(b); at += entryAlign {
		if string(b[at:at+4]) != entryMagic {
			continue
		}
		if e, ok := decodeEntry(b[at:]); ok && e.Generation == generation && e.Round > round {
			return true
		}
	}
	return false
}

// effective applies the cuts: what remains of a log's entries, in order.
func effective(entries []entry, id identity) []entry {
	var out []entry
	for _, e := range entries {
		if e.Identity != id {
			continue
		}
		if e.Kind == entryData {
			out = append(out, e)
			continue
		}
		kept := out[:0]
		for _, earlier := range out {
			if earlier.Base >= e.Base {
				continue
			}
			if earlier.Next > e.Base {
				earlier.Payload = batchesBefore(earlier.Payload, e.Base)
				earlier.Next = e.Base
			}
			kept = append(kept, earlier)
		}
		out = kept
	}
	return out
}

// batchesBefore is the prefix of batches that end before off.
func batchesBefore(b []byte, off model.Offset) []byte {
	n := 0
	for {
		h, size, err := record.Parse(b[n:])
		if err != nil || h.LastOffset() >= off {
			return b[:n:n]
		}
		n += size
	}
}

// batchesFrom is the rest of batches that begin at or after off.
func batchesFrom(b []byte, off model.Offset) []byte {
	for {
		h, size, err := record.Parse(b)
		if err != nil || h.BaseOffset >= off {
			return b
		}
		b = b[size:]
	}
}

// replayLog appends to one log what it lacks.
func replayLog(fsys vfs.FS, dir string, entries []entry, report *Replay) error {
	name := path.Base(dir)
	if info, err := fsys.Stat(dir); err != nil || !info.Dir {
		if err != nil && !vfs.IsNotExist(err) {
			return err
		}
		report.Skipped = append(report.Skipped, name)
		return nil
	}
	l, recovery, err := Open(Config{FS: fsys, Dir: dir})
	if recovery.Quarantined {
		report.Damaged = append(report.Damaged, name)
		return nil
	}
	if err != nil {
		return err
	}
	list := effective(entries, l.identity)
	if len(list) == 0 {
		if entries[0].Identity != l.identity {
			report.Skipped = append(report.Skipped, name)
		}
		return l.Close(true)
	}
	before := l.Bytes()
	for _, e := range list {
		if e.Next <= l.LogEnd() {
			continue
		}
		rest := batchesFrom(e.Payload, l.LogEnd())
		_, err := l.AppendFollower(rest)
		if err == nil && l.LogEnd() == e.Next {
			continue
		}
		if err == nil {
			err = fmt.Errorf("an entry ends at offset %d where %d is expected", l.LogEnd(), e.Next)
		}
		if vfs.IsNoSpace(err) {
			l.Close(false)
			return err
		}
		report.Damaged = append(report.Damaged, name)
		l.Close(false)
		reason := fmt.Sprintf("the journal does not continue the log: %v", err)
		return vfs.WriteFile(fsys, path.Join(dir, damagedName), []byte(reason), true)
	}
	if n := l.Bytes() - before; n > 0 {
		report.Logs++
		report.Bytes += n
	}
	return l.Close(true)
}

// keepJournal sets the journal's files aside for a person to look at.
func keepJournal(fsys vfs.FS, dir string) error {
	for i := range journalFiles {
		name := path.Join(dir, journalName(i))
		if _, err := fsys.Stat(name); vfs.IsNotExist(err) {
			continue
		}
		for n := 1; ; n++ {
			to := fmt.Sprintf("%s.kept-%d", name, n)
			if _, err := fsys.Stat(to); err == nil {
				continue
			}
			if err := fsys.Rename(name, to); err != nil {
				return fmt.Errorf("keep journal: %w", err)
			}
			break
		}
	}
	return fsys.SyncDir(dir)
}
