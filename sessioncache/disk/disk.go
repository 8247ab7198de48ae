// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package disk keeps snapshots of sessions in a SQLite file.
//
// Saved snapshots are in the file's write-ahead log before Save returns, so they survive any end of
// the process. The log is synced to the medium at checkpoints: a power failure may lose the last
// snapshots, but not the file.
package disk

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Options configure a file of sessions.
type Options struct {
	// Path is the file. It is made, and the folders above it, for its owner only.
	Path string
	// MaxBytes limits the file, approximately. The tenant with the most bytes loses its least
	// recently used sessions.
	MaxBytes int64
	// TTL is the lifetime of a session after its last request.
	TTL time.Duration
	// Log receives the treatment of a damaged file. Optional.
	Log func(message string, err error)
}

var (
	// ErrInUse says that another process has the file.
	ErrInUse = errors.New("in use by another process: each needs a file of its own")
	// ErrNewer says that a newer program has written the file.
	ErrNewer = errors.New("written by a newer program")
)

// Disk is a file of sessions. It implements [sessioncache.Backend].
type Disk struct {
	path string
	log  func(string, error)

	// turn serializes changes of the file, and is locked before mu. mu is only locked for short
	// looks at the index, so requests of new sessions do not wait for writes.
	turn sync.Mutex
	next int64 // the id of the next new session, which the turn guards

	mu      sync.Mutex
	max     int64
	ttl     time.Duration
	db      *sql.DB
	kept    *lru.Cache[sessioncache.Digest, sessioncache.Tenant, *row]
	answers map[sessioncache.Digest]sessioncache.Digest
}

// row is the index entry of a session.
type row struct {
	id      int64 // in the file
	used    time.Time
	answers []sessioncache.Digest
}

var _ sessioncache.Backend = (*Disk)(nil)

// Open opens a file of sessions, or makes it. A damaged file is set aside.
func Open(o Options) (*Disk, error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	d := &Disk{path: path, log: o.Log, max: o.MaxBytes, ttl: o.TTL}
	if d.log == nil {
		d.log = func(string, error) {}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	if err = d.open(); damaged(err) {
		err = d.renew(err)
	}
	if err != nil {
		return nil, fmt.Errorf("sessions: %s: %w", path, err)
	}
	return d, nil
}

// page is the usual page size of SQLite, in bytes.
const page = 4096

// sizeOf returns the approximate size of a snapshot in the file.
func sizeOf(bytes int64) int64 {
	bytes += 200
	if bytes < page/2 {
		return bytes
	}
	// Long snapshots get pages of their own.
	return (bytes + page - 1) / page * page
}

// enter adds a saved session to the index. The caller holds mu.
func (d *Disk) enter(r *sessioncache.Record, id, bytes int64) {
	if old := d.kept.Get(r.Digest); old != nil {
		d.unlink(r.Digest, old.Value)
	}
	d.kept.Put(r.Digest, r.Tenant, &row{id, r.Used, r.Answers}, sizeOf(bytes))
	for _, a := range r.Answers {
		d.answers[a] = r.Digest
	}
}

func (d *Disk) unlink(digest sessioncache.Digest, r *row) {
	for _, a := range r.answers {
		if d.answers[a] == digest {
			delete(d.answers, a)
		}
	}
}

// drop removes a session from the index. The caller holds mu.
func (d *Disk) drop(e *lru.Entry[sessioncache.Digest, sessioncache.Tenant, *row]) {
	d.unlink(e.Key, e.Value)
	d.kept.Drop(e)
}

// SetLimits changes the bounds.
func (d *Disk) SetLimits(maxBytes int64, ttl time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.max, d.ttl = maxBytes, ttl
}

// Load implements [sessioncache.Backend].
func (d *Disk) Load(ctx context.Context, digest sessioncache.Digest) ([]byte, error) {
	d.mu.Lock()
	e := d.kept.Get(digest)
	if e == nil || digest != (sessioncache.Digest{}) && time.Since(e.Value.used) > d.ttl {
		d.mu.Unlock()
		return nil, nil
	}
	db, id := d.db, e.Value.id
	d.mu.Unlock()
	var snapshot []byte
	err := db.QueryRowContext(ctx, "SELECT snapshot FROM sessions WHERE id = ? AND digest = ?", id,
		digest[:]).Scan(&snapshot)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	return snapshot, nil
}

// Answered implements [sessioncache.Backend].
func (d *Disk) Answered(_ context.Context, answer sessioncache.Digest) (sessioncache.Digest, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	digest, ok := d.answers[answer]
	return digest, ok, nil
}

// Named implements [sessioncache.Backend].
func (d *Disk) Named(_ context.Context, begins [8]byte) (sessioncache.Digest, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for e := range d.kept.Oldest() {
		if [8]byte(e.Key[:8]) == begins {
			return e.Key, true, nil
		}
	}
	return sessioncache.Digest{}, false, nil
}

// Save implements [sessioncache.Backend].
func (d *Disk) Save(ctx context.Context, records []sessioncache.Record) error {
	d.turn.Lock()
	defer d.turn.Unlock()
	err := d.save(ctx, records)
	if err == nil {
		return nil
	}
	if code(err) == sqlite3.SQLITE_TOOBIG { // any other is one of the file
		return fmt.Errorf("sessions: %w", err)
	}
	return fmt.Errorf("sessions: %w: %w", sessioncache.ErrUnavailable, d.mend(err))
}

func (d *Disk) save(ctx context.Context, records []sessioncache.Record) error {
	// A statement that could be interrupted would have a goroutine of its own, and each of
	// these is over soon.
	ctx = context.WithoutCancel(ctx)
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	put, err := tx.PrepareContext(ctx,
		"INSERT OR REPLACE INTO sessions (id, digest, tenant, used, answers, snapshot) VALUES (?, ?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer put.Close()
	ids := d.ids(records)
	for i := range records {
		r := &records[i]
		answers := make([]byte, 0, len(r.Answers)*len(r.Digest))
		for _, a := range r.Answers {
			answers = append(answers, a[:]...)
		}
		if _, err := put.ExecContext(ctx, ids[r.Digest], r.Digest[:], r.Tenant[:], r.Used.UnixNano(), answers,
			r.Snapshot); err != nil {
			return err
		}
	}
	gone, err := d.limit(ctx, tx, records)
	if err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	d.saved(records, ids, gone)
	if len(gone) > 0 {
		_, err = d.db.ExecContext(ctx, "PRAGMA incremental_vacuum(1000)")
	}
	return err
}

// ids returns the row ids of records, new ones for new sessions.
func (d *Disk) ids(records []sessioncache.Record) map[sessioncache.Digest]int64 {
	ids := make(map[sessioncache.Digest]int64, len(records))
	// Digests are random: an index of them in the file would cost a page write for almost each
	// session.
	for i := range records {
		digest := records[i].Digest
		if e := d.kept.Get(digest); e != nil {
			ids[digest] = e.Value.id
		} else if _, ok := ids[digest]; !ok {
			ids[digest] = d.next
			d.next++
		}
	}
	return ids
}

// saved updates the index after a write.
func (d *Disk) saved(records []sessioncache.Record, ids map[sessioncache.Digest]int64, gone []sessioncache.Digest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range records {
		d.enter(&records[i], ids[records[i].Digest], int64(len(records[i].Snapshot)))
	}
	for _, digest := range gone {
		if e := d.kept.Get(digest); e != nil {
			d.drop(e)
		}
	}
}

// limit deletes expired sessions, and makes room for records: the tenant with the most bytes loses its
// least recently used sessions.
func (d *Disk) limit(
	ctx context.Context, tx *sql.Tx, records []sessioncache.Record,
) (gone []sessioncache.Digest, err error) {
	d.mu.Lock()
	maxBytes, ttl := d.max, d.ttl
	d.mu.Unlock()
	saved := make(map[sessioncache.Digest]bool, len(records))
	bytes := d.kept.Bytes() // only the holder of the turn changes it
	for i := range records {
		saved[records[i].Digest] = true
		bytes += sizeOf(int64(len(records[i].Snapshot)))
		if e := d.kept.Get(records[i].Digest); e != nil {
			bytes -= e.Size()
		}
	}
	drop := func(e *lru.Entry[sessioncache.Digest, sessioncache.Tenant, *row]) error {
		gone = append(gone, e.Key)
		bytes -= e.Size()
		_, err := tx.ExecContext(ctx, "DELETE FROM sessions WHERE id = ?", e.Value.id)
		return err
	}
	now := time.Now()
	for e := range d.kept.Oldest() {
		if now.Sub(e.Value.used) <= ttl {
			break
		}
		if saved[e.Key] || e.Key == (sessioncache.Digest{}) {
			continue
		}
		saved[e.Key] = true
		if err := drop(e); err != nil {
			return nil, err
		}
	}
	if bytes <= maxBytes {
		return gone, nil
	}
	heaviest, ok := d.kept.Heaviest()
	if !ok {
		return gone, nil
	}
	for e := range d.kept.OldestOf(heaviest) {
		if bytes <= maxBytes-maxBytes/64 { // some room at once, for the next
			break
		}
		if saved[e.Key] || e.Key == (sessioncache.Digest{}) {
			continue
		}
		if err := drop(e); err != nil {
			return nil, err
		}
	}
	return gone, nil
}

// Delete implements [sessioncache.Backend].
func (d *Disk) Delete(ctx context.Context, digest sessioncache.Digest) error {
	d.turn.Lock()
	defer d.turn.Unlock()
	e := d.kept.Get(digest)
	if e == nil {
		return nil
	}
	if _, err := d.db.ExecContext(ctx, "DELETE FROM sessions WHERE id = ?", e.Value.id); err != nil {
		return fmt.Errorf("sessions: %w", d.mend(err))
	}
	d.saved(nil, nil, []sessioncache.Digest{digest})
	return nil
}

// Usage implements [sessioncache.Backend].
func (d *Disk) Usage() (sessions int, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept.Len(), d.kept.Bytes()
}

// Close implements [sessioncache.Backend].
func (d *Disk) Close() error {
	d.turn.Lock()
	defer d.turn.Unlock()
	return d.db.Close()
}
