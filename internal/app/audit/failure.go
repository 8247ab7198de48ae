// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Reasons for a store's failure, in the words of metrics and of the health page.
const (
	ReasonFull        = "full"
	ReasonDamaged     = "damaged"
	ReasonForeign     = "foreign"
	ReasonNewer       = "newer"
	ReasonLocked      = "locked"
	ReasonDenied      = "denied"
	ReasonUnreachable = "unreachable"
	ReasonOther       = "other"
)

// Reasons lists all reasons.
var Reasons = []string{
	ReasonFull, ReasonDamaged, ReasonForeign, ReasonNewer, ReasonLocked, ReasonDenied, ReasonUnreachable, ReasonOther,
}

var (
	// ErrForeign says that a database or file belongs to another program.
	ErrForeign = errors.New("audit: the file belongs to another program")
	// ErrNewer says that a later version of this program made the database.
	ErrNewer = errors.New("audit: the schema is newer than this program")
)

// ReasonOf returns the reason for an error of a store.
func ReasonOf(err error) string {
	if _, ok := errors.AsType[*DamagedError](err); ok {
		return ReasonDamaged
	}
	switch code(err) {
	case sqlite3.SQLITE_FULL:
		return ReasonFull
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return ReasonDamaged
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return ReasonLocked
	case sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH:
		return ReasonDenied
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case pg.Code == "53100": // disk_full
			return ReasonFull
		case pg.Code == "42501", strings.HasPrefix(pg.Code, "28"): // insufficient_privilege, invalid_authorization
			return ReasonDenied
		}
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, ErrForeign):
		return ReasonForeign
	case errors.Is(err, ErrNewer):
		return ReasonNewer
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return ReasonFull
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR),
		errors.Is(err, syscall.EISDIR):
		return ReasonDenied
	case connecting, network, errors.Is(err, context.DeadlineExceeded):
		return ReasonUnreachable
	}
	return ReasonOther
}

func code(err error) int {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		// The low byte is the primary code, the rest is a detail.
		return e.Code() & 0xff
	}
	return 0
}

// DamagedError is the error of a damaged SQLite file.
type DamagedError struct {
	path string
	file os.FileInfo // as of opening
	err  error
}

// Error implements error.
func (d *DamagedError) Error() string { return fmt.Sprintf("audit: %s is damaged: %v", d.path, d.err) }

// Unwrap returns the error of SQLite.
func (d *DamagedError) Unwrap() error { return d.err }

// SetAside renames the damaged file to make room for a new one, and returns the new name. It
// returns "" if another process has set the file aside. The caller must close the store first.
func (d *DamagedError) SetAside() (string, error) {
	// Another process may have made a new file at the path already.
	now, err := os.Stat(d.path)
	if errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(now, d.file) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("audit: %w", err)
	}
	// SQLite keeps its log beside the target of a symbolic link.
	path, err := filepath.EvalSymlinks(d.path)
	if err != nil {
		return "", fmt.Errorf("audit: %w", err)
	}
	stem := path + ".damaged-" + time.Now().UTC().Format("20060102T150405Z")
	damaged := stem
	for n := 2; ; n++ {
		if _, err := os.Lstat(damaged); errors.Is(err, os.ErrNotExist) {
			break
		}
		damaged = fmt.Sprintf("%s-%d", stem, n)
	}
	// The database goes last: SQLite would replay a remaining log into the new file.
	for _, suffix := range [...]string{"-wal", "-shm", "-journal", ""} {
		if err := os.Rename(path+suffix, damaged+suffix); err != nil && (suffix == "" || !errors.Is(err, os.ErrNotExist)) {
			return "", fmt.Errorf("audit: %w", err)
		}
	}
	return damaged, nil
}
