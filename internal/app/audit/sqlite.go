// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// sqliteTime is the format of times in SQLite: readable by its date functions and sortable. They
// are UTC.
const sqliteTime = "2006-01-02 15:04:05.000000"

// SQLite keeps records in a file, in the tables turns and contents. Several readers and one writer
// may open the file at the same time.
type SQLite struct {
	db     *sql.DB
	path   string
	file   os.FileInfo
	insert string
}

// OpenSQLite opens a file for reading and writing. It leaves a file unchanged that is damaged ([DamagedError]), of
// another program ([ErrForeign]) or newer ([ErrNewer]).
func OpenSQLite(path string) (*SQLite, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	// The driver would create the file readable for all. An existing file is not opened here:
	// closing it would release SQLite's POSIX locks of this process.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		err = f.Close()
	} else if errors.Is(err, os.ErrExist) {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	if err := CheckSQLite(path); err != nil {
		return nil, err
	}
	s, err := openSQLite(path, "rwc", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)")
	if err != nil {
		return nil, err
	}
	if err := s.makeSchema(context.Background()); err != nil {
		return nil, errors.Join(s.failed(fmt.Errorf("%s: %w", path, err)), s.Close())
	}
	return s, nil
}

// CheckSQLite returns the reason why a file cannot be opened for writing. The file stays unchanged.
func CheckSQLite(path string) error {
	// Opening it for writing would switch its log on.
	s, err := openSQLite(path, "rw", "query_only(1)")
	if err != nil {
		return err
	}
	defer s.Close()
	version, application, tables, known := 0, 0, 0, 0
	for _, fact := range []struct {
		query string
		value *int
	}{
		{"PRAGMA user_version", &version},
		{"PRAGMA application_id", &application},
		{"SELECT count(*) FROM sqlite_master", &tables},
		{"SELECT count(*) FROM pragma_table_info('turns') WHERE name IN ('id', 'at', 'tenant', 'client_uncached')", &known},
	} {
		if err := s.db.QueryRow(fact.query).Scan(fact.value); err != nil {
			return s.failed(fmt.Errorf("%s: %w", path, err))
		}
	}
	ours := tables == 0 || known == 4 && version > 0
	switch {
	case !ours || application != 0:
		return fmt.Errorf("%s: %w", path, ErrForeign)
	case isNewer(version):
		return fmt.Errorf("%s: %w", path, newer(version))
	}
	return nil
}

// CheckSQLitePath returns the reason why [OpenSQLite] would fail at a path. Missing files and folders are created by
// it, so the nearest existing folder must be writable. Another process may have the file locked.
func CheckSQLitePath(path string) error {
	if _, err := os.Stat(path); err == nil {
		if err := CheckSQLite(path); err != nil && ReasonOf(err) != ReasonLocked {
			return err
		}
		return nil
	}
	dir := filepath.Dir(path)
	for {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	probe, err := os.CreateTemp(dir, ".llm-cache-*")
	if err != nil {
		return fmt.Errorf("audit: %s cannot be created: %w", path, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

func (s *SQLite) failed(err error) error {
	if c := code(err); c == sqlite3.SQLITE_CORRUPT || c == sqlite3.SQLITE_NOTADB {
		return &DamagedError{s.path, s.file, err}
	}
	return fmt.Errorf("audit: %w", err)
}

// ReadSQLite opens an existing file for reading.
func ReadSQLite(path string) (*SQLite, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	s, err := openSQLite(path, "rw", "query_only(1)") // readers of a WAL need to write its index
	if err != nil {
		return nil, err
	}
	version := 0
	if err := s.db.QueryRow("PRAGMA user_version").Scan(&version); err != nil || version == 0 || isNewer(version) {
		if err == nil {
			err = fmt.Errorf("the schema is of version %d, this program reads version %d", version, schemaVersion)
		}
		return nil, errors.Join(fmt.Errorf("audit: %s: %w", path, err), s.Close())
	}
	return s, nil
}

func openSQLite(path, mode string, pragmas ...string) (*SQLite, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	file, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	if !file.Mode().IsRegular() { // SQLite would block for ever on a pipe
		return nil, fmt.Errorf("audit: %s is no regular file: %w", path, os.ErrPermission)
	}
	pragmas = append([]string{"busy_timeout(5000)"}, pragmas...)
	query := url.Values{"mode": {mode}, "_txlock": {"immediate"}, "_pragma": pragmas}
	name := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	// One connection writes while another one reads.
	db.SetMaxOpenConns(2)
	return &SQLite{db: db, path: path, file: file, insert: "INSERT OR IGNORE INTO turns (" + columnList + ") VALUES (" +
		strings.Repeat("?, ", len(columns)-1) + "?)"}, nil
}

func (s *SQLite) makeSchema(ctx context.Context) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	version := 0
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	switch {
	case isNewer(version):
		return newer(version)
	case version >= schemaVersion:
		if err := addColumns(ctx, tx); err != nil {
			return err
		}
		return tx.Commit()
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("%s; PRAGMA user_version = %d", sqliteSchema,
		schemaVersion)); err != nil {
		return fmt.Errorf("making the schema: %w", err)
	}
	return tx.Commit()
}

// addColumns adds the columns that an earlier program did not know.
func addColumns(ctx context.Context, tx *sql.Tx) error {
	rows, err := tx.QueryContext(ctx, "SELECT name FROM pragma_table_info('turns')")
	if err != nil {
		return err
	}
	defer rows.Close()
	known := map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		known[name] = true
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, name := range columns {
		if known[name] {
			continue
		}
		if _, err := tx.ExecContext(ctx, "ALTER TABLE turns ADD COLUMN "+definition(sqliteSchema, name)); err != nil {
			return fmt.Errorf("adding the column %s: %w", name, err)
		}
	}
	return nil
}

// Write implements Store.
func (s *SQLite) Write(ctx context.Context, batch []*Record) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return s.failed(err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	// IGNORE: the batch may be written again after an error of unknown effect.
	insert, err := tx.PrepareContext(ctx, s.insert)
	if err != nil {
		return s.failed(err)
	}
	defer insert.Close()
	for _, r := range batch {
		if _, err := insert.ExecContext(ctx, r.values(r.ID.String(), r.At.UTC().Format(sqliteTime))...); err != nil {
			return s.failed(err)
		}
		if r.Content == nil {
			continue
		}
		prompt, err := pack(r.Content.Prompt)
		if err != nil {
			return err
		}
		answer, err := pack(r.Content.Answer)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO contents (turn, prompt, answer) VALUES (?, ?, ?)",
			r.ID.String(), prompt, answer); err != nil {
			return s.failed(err)
		}
	}
	if err := tx.Commit(); err != nil {
		return s.failed(err)
	}
	return nil
}

// Prune implements Store. Contents are deleted with their turns.
func (s *SQLite) Prune(ctx context.Context, before time.Time) (int64, error) {
	result, err := s.db.ExecContext(ctx, "DELETE FROM turns WHERE at < ?", before.UTC().Format(sqliteTime))
	if err != nil {
		return 0, s.failed(err)
	}
	return result.RowsAffected()
}

// Each implements Source.
func (s *SQLite) Each(ctx context.Context, since time.Time, f func(*Record) error) error {
	return s.each(ctx, f, "at >= ? ORDER BY at", since.UTC().Format(sqliteTime))
}

// Recent implements RecentSource.
func (s *SQLite) Recent(ctx context.Context, f Filter) ([]Turn, error) {
	condition, args := f.where(f.Since.UTC().Format(sqliteTime), func(int) string { return "?" })
	turns := []Turn{}
	err := s.each(ctx, func(r *Record) error {
		turns = append(turns, r.turn(whole))
		return nil
	}, condition, args...)
	return turns, err
}

func (s *SQLite) each(ctx context.Context, f func(*Record) error, condition string, args ...any) error {
	rows, err := s.db.QueryContext(ctx, "SELECT "+columnList+" FROM turns WHERE "+condition, //nolint:gosec // values are parameters
		args...)
	if err != nil {
		return s.failed(err)
	}
	defer rows.Close()
	var (
		r      Record
		id, at string
	)
	targets := r.targets(&id, &at)
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return s.failed(err)
		}
		if err := r.ID.UnmarshalText([]byte(id)); err != nil {
			return err
		}
		if r.At, err = time.Parse(sqliteTime, at); err != nil {
			return s.failed(err)
		}
		r.ClientBilled.Output = r.Billed.Output // both bills have the same answer
		if err := f(&r); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return s.failed(err)
	}
	return nil
}

// Content returns the content of a turn, nil if none was stored.
func (s *SQLite) Content(ctx context.Context, id ID) (*Content, error) {
	var prompt, answer []byte
	row := s.db.QueryRowContext(ctx, "SELECT prompt, answer FROM contents WHERE turn = ?", id.String())
	err := row.Scan(&prompt, &answer)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return unpacked(prompt, answer)
}

// Close implements Store.
func (s *SQLite) Close() error { return s.db.Close() }
