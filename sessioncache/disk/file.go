// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/version"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// form is the number of the table's format, in user_version, see [version.Major]. Columns may be added in a minor
// version, with a default.
const form = 1

const table = `
CREATE TABLE IF NOT EXISTS sessions (
	id       INTEGER PRIMARY KEY,
	digest   BLOB NOT NULL,
	tenant   BLOB NOT NULL,
	used     INTEGER NOT NULL,
	answers  BLOB NOT NULL,
	snapshot BLOB NOT NULL
)`

func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

func damaged(err error) bool {
	c := code(err)
	return c == sqlite3.SQLITE_CORRUPT || c == sqlite3.SQLITE_NOTADB
}

// open opens the file and reads the index of its sessions.
func (d *Disk) open() error {
	// The driver would create the file readable by all.
	f, err := os.OpenFile(d.path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		err = f.Close()
	} else if errors.Is(err, os.ErrExist) {
		err = nil
	}
	if err != nil {
		return err
	}
	query := url.Values{"mode": {"rw"}, "_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(1000)", "auto_vacuum(INCREMENTAL)", "locking_mode(EXCLUSIVE)",
		"journal_mode(WAL)", "synchronous(NORMAL)", "journal_size_limit(4194304)", "secure_delete(FAST)",
	}}
	name := url.URL{Scheme: "file", Path: filepath.ToSlash(d.path), RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1) // the connection has the lock
	d.db = db
	if err := d.read(); err != nil {
		if c := code(err); c == sqlite3.SQLITE_BUSY || c == sqlite3.SQLITE_LOCKED {
			err = ErrInUse
		}
		return errors.Join(err, db.Close())
	}
	return nil
}

func (d *Disk) read() error {
	d.kept = lru.New(lru.Options[sessioncache.Digest, sessioncache.Tenant, *row]{})
	d.answers = map[sessioncache.Digest]sessioncache.Digest{}
	tx, err := d.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	found := 0
	if err := tx.QueryRow("PRAGMA user_version").Scan(&found); err != nil {
		return err
	}
	if version.Major(found) > version.Major(form) {
		return ErrNewer
	}
	if _, err := tx.Exec(fmt.Sprintf("%s; PRAGMA user_version = %d", table, max(found, form))); err != nil {
		return err
	}
	rows, err := tx.Query("SELECT id, digest, tenant, used, answers, length(snapshot) FROM sessions ORDER BY used")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var digest, tenant, answers []byte
		var id, used, size int64
		if err := rows.Scan(&id, &digest, &tenant, &used, &answers, &size); err != nil {
			return err
		}
		r := sessioncache.Record{Used: time.Unix(0, used)}
		copy(r.Digest[:], digest)
		copy(r.Tenant[:], tenant)
		for ; len(answers) >= len(r.Digest); answers = answers[len(r.Digest):] {
			r.Answers = append(r.Answers, sessioncache.Digest(answers[:len(r.Digest)]))
		}
		d.enter(&r, id, size)
		d.next = max(d.next, id+1)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return tx.Commit()
}

// renew sets a damaged file aside and begins a new one.
func (d *Disk) renew(why error) error {
	target := d.path + ".damaged"
	if err := os.Rename(d.path, target); err != nil {
		return errors.Join(why, err)
	}
	for _, more := range [...]string{"-wal", "-shm"} {
		if err := os.Remove(d.path + more); err != nil && !errors.Is(err, os.ErrNotExist) {
			return errors.Join(why, err)
		}
	}
	d.log("the file of sessions is damaged: it was set aside as "+target+", and sessions begin anew", why)
	return d.open()
}

// mend begins a new file if the error shows that the present one is damaged. The caller holds the
// turn.
func (d *Disk) mend(err error) error {
	if !damaged(err) {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.db.Close()
	return errors.Join(err, d.renew(err))
}
