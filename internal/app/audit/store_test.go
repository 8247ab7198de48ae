// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// dsnEnv names a PostgreSQL database for the tests of the store. Its schema
// llm_cache is dropped.
const dsnEnv = "LLM_CACHE_POSTGRES"

// store is a Store that can be read.
type store interface {
	Store
	Source
}

func postgres(tb testing.TB) *Postgres {
	tb.Helper()
	dsn := os.Getenv(dsnEnv)
	if dsn == "" {
		tb.Skipf("set %s to a connection string; the end-to-end tests do", dsnEnv)
	}
	p, err := OpenPostgres(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = p.Close() })
	if _, err := p.pool.Exec(context.Background(), "DROP SCHEMA IF EXISTS llm_cache CASCADE"); err != nil {
		tb.Fatal(err)
	}
	return p
}

func sqlite(tb testing.TB) *SQLite {
	tb.Helper()
	s, err := OpenSQLite(filepath.Join(tb.TempDir(), "new folder", "audit #1?.db"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// rw is a JSONL file that is written and read.
type rw struct {
	*JSONL
	*JSONLFile
}

func (r rw) Close() error { return r.JSONL.Close() }

func TestStores(t *testing.T) {
	for name, open := range map[string]func(*testing.T) store{
		"sqlite":   func(t *testing.T) store { return sqlite(t) },
		"postgres": func(t *testing.T) store { return postgres(t) },
		"jsonl": func(t *testing.T) store {
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.Close() })
			r, err := ReadJSONL(path)
			if err != nil {
				t.Fatal(err)
			}
			return rw{NewJSONL(f), r}
		},
	} {
		t.Run(name, func(t *testing.T) { testStore(t, open(t)) })
	}
}

func testStore(t *testing.T, s store) {
	ctx := t.Context()
	batch := []*Record{sample(0), sample(1), sample(2)}
	batch[1].Edits, batch[1].Resent, batch[1].Stream = nil, false, false
	batch[2].Content = &Content{Prompt: []byte(`{"messages":[]}`), Answer: []byte(`{"text":"Done."}`)}
	// A batch is written again after an error, though it was stored.
	for range 2 {
		if err := s.Write(ctx, batch); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Write(ctx, []*Record{batch[2], sample(3)}); err != nil {
		t.Fatal(err)
	}
	read := func(since time.Time) (all []Record) {
		t.Helper()
		if err := s.Each(ctx, since, func(r *Record) error { all = append(all, *r); return nil }); err != nil {
			t.Fatal(err)
		}
		return all
	}
	got := read(time.Time{})
	if len(got) != 4 {
		t.Fatalf("%d records", len(got))
	}
	for i, want := range batch {
		w := *want
		w.Content = nil
		got[i].At = got[i].At.UTC()
		if !reflect.DeepEqual(got[i], w) {
			t.Errorf("record %d: got\n%+v\nwant\n%+v", i, got[i], w)
		}
	}
	if n := len(read(batch[1].At)); n != 3 {
		t.Errorf("%d records since the second", n)
	}
	c, ok := s.(interface {
		Content(context.Context, ID) (*Content, error)
	})
	if !ok {
		return // the store has neither content nor retention
	}
	if kept, err := c.Content(ctx, batch[2].ID); err != nil || !reflect.DeepEqual(kept, batch[2].Content) {
		t.Errorf("content %+v, %v", kept, err)
	}
	if n, err := s.Prune(ctx, got[3].At); err != nil || n != 3 {
		t.Errorf("pruned %d, %v", n, err)
	}
	if left := read(time.Time{}); len(left) != 1 || left[0].ID != got[3].ID {
		t.Errorf("left are %d", len(left))
	}
	if kept, err := c.Content(ctx, batch[2].ID); err != nil || kept != nil {
		t.Errorf("content outlived its turn: %v", err)
	}
}

// written returns an open file with one record, and its path.
func written(t *testing.T) (s *SQLite, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "audit.db")
	s, err := OpenSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), []*Record{sample(1)}); err != nil {
		t.Fatal(err)
	}
	return s, path
}

func TestSQLiteFile(t *testing.T) {
	s, path := written(t)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	// A reader beside the writer, and a second opening.
	r, err := ReadSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := r.Each(t.Context(), time.Time{}, func(*Record) error { n++; return nil }); err != nil || n != 1 {
		t.Errorf("%d records, %v", n, err)
	}
	if err := r.Write(t.Context(), []*Record{sample(2)}); err == nil {
		t.Error("a reader has written")
	}
	_ = r.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Write(t.Context(), []*Record{sample(3)}); err != nil {
		t.Fatal(err)
	}
	_ = again.Close()

	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	for _, open := range []func(string) (*SQLite, error){OpenSQLite, ReadSQLite} {
		if _, err := open(path); err == nil || !strings.Contains(err.Error(), "version 99") {
			t.Errorf("a newer schema: %v", err)
		}
	}
	if _, err := ReadSQLite(filepath.Join(t.TempDir(), "nothing.db")); err == nil {
		t.Error("a file that is not there was opened for reading")
	}
}

// TestEarlierColumns: a database of an earlier program gets the columns that it lacks, and keeps its records.
func TestEarlierColumns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	for name, of := range map[string]struct {
		open func(t *testing.T) store
		drop func(t *testing.T, s store, column string) error
	}{
		"sqlite": {
			func(t *testing.T) store {
				s, err := OpenSQLite(path)
				if err != nil {
					t.Fatal(err)
				}
				return s
			},
			func(_ *testing.T, s store, column string) error {
				_, err := s.(*SQLite).db.Exec("ALTER TABLE turns DROP COLUMN " + column)
				return err
			},
		},
		"postgres": {
			func(t *testing.T) store {
				p, err := OpenPostgres(os.Getenv(dsnEnv))
				if err != nil {
					t.Fatal(err)
				}
				return p
			},
			func(t *testing.T, s store, column string) error {
				_, err := s.(*Postgres).pool.Exec(t.Context(), "ALTER TABLE llm_cache.turns DROP COLUMN "+column)
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "postgres" {
				postgres(t) // skips without one, and empties it
			}
			s := of.open(t)
			if err := s.Write(t.Context(), []*Record{sample(0)}); err != nil {
				t.Fatal(err)
			}
			for _, column := range []string{"user_groups", "project", "translation", "fold_misses"} {
				if err := of.drop(t, s, column); err != nil {
					t.Fatal(err)
				}
			}
			_ = s.Close()
			s = of.open(t)
			defer s.Close()
			if err := s.Write(t.Context(), []*Record{sample(1)}); err != nil {
				t.Fatal(err)
			}
			var got []Record
			if err := s.Each(t.Context(), time.Time{}, func(r *Record) error { got = append(got, *r); return nil }); err != nil {
				t.Fatal(err)
			}
			if len(got) != 2 || got[0].User != "alice" || got[0].Groups != nil || got[0].Project != "" ||
				!slices.Equal(got[1].Groups, []string{"night", "web"}) || got[1].Project != "shop" {
				t.Errorf("got %+v, want the earlier record without groups and project, and the later one with them", got)
			}
		})
	}
}

// TestLaterMinorVersion: a file of a later minor version, with a column and a table more, is read and written.
func TestLaterMinorVersion(t *testing.T) {
	s, path := written(t)
	if _, err := s.db.Exec("ALTER TABLE turns ADD COLUMN later INTEGER NOT NULL DEFAULT 0; CREATE TABLE more (x); " +
		"PRAGMA user_version = 1001"); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	s, err := OpenSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), []*Record{sample(2)}); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	r, err := ReadSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := 0
	if err := r.Each(t.Context(), time.Time{}, func(*Record) error { n++; return nil }); err != nil || n != 2 {
		t.Errorf("got %d records and error %v, want 2", n, err)
	}
	version := 0
	if err := r.db.QueryRow("PRAGMA user_version").Scan(&version); err != nil || version != 1001 {
		t.Errorf("the file is of version %d now (error %v), want 1001", version, err)
	}
}

// An unusable file stays unchanged, and the error names the reason.
func TestUnusableFiles(t *testing.T) {
	dir := t.TempDir()
	made := func(name string, statements ...string) string {
		path := filepath.Join(dir, name)
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, s := range statements {
			if _, err := db.Exec(s); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	written := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cut := made("cut.db", "CREATE TABLE x (y)", "INSERT INTO x VALUES (zeroblob(100000))")
	if err := os.Truncate(cut, 5000); err != nil {
		t.Fatal(err)
	}
	for want, paths := range map[string][]string{
		ReasonDamaged: {
			cut, written("rubbish.db", []byte("rubbish")), written("zeros.db", make([]byte, 8192)),
			written("head.db", append([]byte("SQLite format 3\x00"), make([]byte, 4080)...)),
		},
		ReasonForeign: {
			made("sessions.db", "CREATE TABLE sessions (id)", "PRAGMA user_version = 2"),
			made("other.db", "CREATE TABLE turns (id, player)"),
			made("newer.db", "CREATE TABLE moz_places (id)", "PRAGMA user_version = 77"),
			made("named.db", "PRAGMA application_id = 5"),
		},
		ReasonNewer:  {made("ours.db", "CREATE TABLE turns (id, at, tenant, client_uncached)", "PRAGMA user_version = 99")},
		ReasonDenied: {dir, filepath.Join(cut, "audit.db")},
	} {
		for _, path := range paths {
			before, _ := os.ReadFile(path)
			s, err := OpenSQLite(path)
			if err == nil {
				_ = s.Close()
			}
			if got := ReasonOf(err); err == nil || got != want {
				t.Errorf("%s: the reason is %q, want %q: %v", filepath.Base(path), got, want, err)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Errorf("%s was changed", filepath.Base(path))
			}
		}
	}
}

// A file is full when it may not grow. Rejected records are accepted later.
func TestFullFile(t *testing.T) {
	s := sqlite(t)
	s.db.SetMaxOpenConns(1) // the limit applies to one connection
	room := func(pages string) {
		if _, err := s.db.Exec("PRAGMA max_page_count = " + pages); err != nil {
			t.Fatal(err)
		}
	}
	room("1")
	batch := make([]*Record, 500)
	for i := range batch {
		batch[i] = sample(i)
	}
	if err := s.Write(t.Context(), batch); ReasonOf(err) != ReasonFull {
		t.Errorf("got %v, want the error of a full disk", err)
	}
	room("100000")
	if err := s.Write(t.Context(), batch); err != nil {
		t.Error(err)
	}
	n := 0
	if err := s.Each(t.Context(), time.Time{}, func(*Record) error { n++; return nil }); err != nil || n != len(batch) {
		t.Errorf("%d records, want %d, %v", n, len(batch), err)
	}
}

// A damaged file is set aside with its log. It replaces no other file, and a file made since then
// stays.
func TestSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	var moved []string
	for range 2 {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := os.WriteFile(path+suffix, []byte(suffix), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		d := &DamagedError{path, info, nil}
		aside, err := d.SetAside()
		if err != nil {
			t.Fatal(err)
		}
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if b, err := os.ReadFile(aside + suffix); err != nil || string(b) != suffix {
				t.Errorf("%s: %q, %v", aside+suffix, b, err)
			}
		}
		moved = append(moved, aside)
		if err := os.WriteFile(path, []byte("new"), 0o600); err != nil {
			t.Fatal(err)
		}
		if again, err := d.SetAside(); again != "" || err != nil {
			t.Errorf("the new file was set aside as %q, %v", again, err)
		}
	}
	if moved[0] == moved[1] {
		t.Errorf("%s was set aside over another one", moved[1])
	}
}

// A database without our tables counts as one without records when it is opened for writing. Opened
// for reading, it stays unchanged.
func TestEmptyPostgres(t *testing.T) {
	p := postgres(t)
	r, err := ReadPostgres(os.Getenv(dsnEnv))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	none := func(*Record) error { t.Error("a record"); return nil }
	if err := r.Each(t.Context(), time.Time{}, none); err == nil {
		t.Error("a reader has made the tables")
	}
	if err := p.Each(t.Context(), time.Time{}, none); err != nil {
		t.Error(err)
	}
	if err := r.Each(t.Context(), time.Time{}, none); err != nil {
		t.Error(err)
	}
}

// tornFile fails in the middle of a write, once.
type tornFile struct {
	strings.Builder
	torn bool
}

func (f *tornFile) Write(p []byte) (int, error) {
	if !f.torn {
		f.torn = true
		n, _ := f.Builder.Write(p[:len(p)/2])
		return n, os.ErrDeadlineExceeded
	}
	return f.Builder.Write(p)
}

func (*tornFile) Close() error { return nil }

func TestTornLines(t *testing.T) {
	f := new(tornFile)
	j := NewJSONL(f)
	batch := []*Record{sample(1), sample(2), sample(3)}
	batch[0].Content = &Content{Prompt: []byte("no JSON")}
	if j.Write(t.Context(), batch) == nil {
		t.Fatal("half a write is no error")
	}
	if err := j.Write(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.jsonl")
	if err := os.WriteFile(path, []byte(f.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := ReadJSONL(path)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := r.Each(t.Context(), time.Time{}, func(*Record) error { n++; return nil }); err != nil || n != 3 {
		t.Errorf("%d records, %v", n, err)
	}
}

// BenchmarkStore measures the turns that a store takes, in batches of the default size.
func BenchmarkStore(b *testing.B) {
	for name, open := range map[string]func(testing.TB) Store{
		"sqlite":   func(tb testing.TB) Store { return sqlite(tb) },
		"postgres": func(tb testing.TB) Store { return postgres(tb) },
	} {
		b.Run(name, func(b *testing.B) {
			s := open(b)
			n := 0
			for b.Loop() {
				b.StopTimer()
				batch := make([]*Record, DefaultBatch)
				for i := range batch {
					batch[i] = sample(n)
					n++
				}
				b.StartTimer()
				if err := s.Write(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "turns/s")
		})
	}
}
