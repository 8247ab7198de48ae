// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// schemaLock is the advisory lock for making the schema: an arbitrary number.
const schemaLock = 7236018430

// Postgres keeps records in a PostgreSQL database, in the tables turns and contents of the schema
// llm_cache. Any number of processes may write to it.
type Postgres struct {
	pool  *pgxpool.Pool
	ready atomic.Bool
}

// CheckDSN returns an error for an invalid connection string or URL. The error has no password.
func CheckDSN(dsn string) error {
	_, err := pgxpool.ParseConfig(dsn)
	return err
}

// OpenPostgres prepares connections to a database, by a connection string or URL of libpq. It does
// not connect.
func OpenPostgres(dsn string) (*Postgres, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err) // pgx masks passwords in it
	}
	cfg.MaxConns = 2
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	// The pool connects on first use. The first batch, probe or read makes missing tables.
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return &Postgres{pool: pool}, nil
}

// ReadPostgres is OpenPostgres for readers: the tables are left as they are.
func ReadPostgres(dsn string) (*Postgres, error) {
	p, err := OpenPostgres(dsn)
	if err == nil {
		p.ready.Store(true)
	}
	return p, err
}

func (p *Postgres) prepare(ctx context.Context) error {
	if p.ready.Load() {
		return nil
	}
	if err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error { return p.makeSchema(ctx, tx) }); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	p.ready.Store(true)
	return nil
}

// Probe implements Prober.
func (p *Postgres) Probe(ctx context.Context) error {
	if err := p.prepare(ctx); err != nil {
		return err
	}
	if err := p.pool.Ping(ctx); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

func (p *Postgres) makeSchema(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(schemaLock)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS llm_cache"); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx,
		"CREATE TABLE IF NOT EXISTS llm_cache.versions (version bigint PRIMARY KEY, at timestamptz NOT NULL DEFAULT "+
			"now())"); err != nil {
		return err
	}
	version := 0
	if err := tx.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM llm_cache.versions").Scan(&version); err != nil {
		return err
	}
	switch {
	case isNewer(version):
		return newer(version)
	case version >= schemaVersion:
		return addPostgresColumns(ctx, tx)
	}
	if _, err := tx.Conn().PgConn().Exec(ctx, postgresSchema).ReadAll(); err != nil {
		return fmt.Errorf("making the schema: %w", err)
	}
	_, err := tx.Exec(ctx, "INSERT INTO llm_cache.versions (version) VALUES ($1)", schemaVersion)
	return err
}

// addPostgresColumns adds the columns that an earlier program did not know.
func addPostgresColumns(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, "SELECT column_name FROM information_schema.columns WHERE table_schema = 'llm_cache' "+
		"AND table_name = 'turns'")
	if err != nil {
		return err
	}
	known, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range columns {
		if slices.Contains(known, name) {
			continue
		}
		if _, err := tx.Exec(ctx, "ALTER TABLE llm_cache.turns ADD COLUMN "+definition(postgresSchema, name)); err != nil {
			return fmt.Errorf("adding the column %s: %w", name, err)
		}
	}
	return nil
}

// Write implements Store.
func (p *Postgres) Write(ctx context.Context, batch []*Record) error {
	if err := p.prepare(ctx); err != nil {
		return err
	}
	rows := make([][]any, len(batch))
	var contents [][]any
	for i, r := range batch {
		rows[i] = r.values([16]byte(r.ID), r.At)
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
		contents = append(contents, []any{[16]byte(r.ID), prompt, answer})
	}
	err := p.copy(ctx, rows, contents, false)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == uniqueViolation {
		// An earlier attempt was committed, though its response got lost.
		err = p.copy(ctx, rows, contents, true)
	}
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

const uniqueViolation = "23505"

// copy sends a batch by COPY. If known is set, the table may have some of the records.
func (p *Postgres) copy(ctx context.Context, turns, contents [][]any, known bool) error {
	return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		for _, t := range []struct {
			name    string
			columns []string
			rows    [][]any
		}{{"turns", columns, turns}, {"contents", []string{"turn", "prompt", "answer"}, contents}} {
			if len(t.rows) == 0 {
				continue
			}
			into := pgx.Identifier{"llm_cache", t.name}
			// COPY has no ON CONFLICT, so the rows take the way over a temporary table.
			if known {
				into = pgx.Identifier{"llm_cache_" + t.name}
				if _, err := tx.Exec(ctx, fmt.Sprintf("CREATE TEMPORARY TABLE llm_cache_%s (LIKE llm_cache.%s) ON COMMIT DROP",
					t.name, t.name)); err != nil {
					return err
				}
			}
			if _, err := tx.CopyFrom(ctx, into, t.columns, pgx.CopyFromRows(t.rows)); err != nil {
				return err
			}
			if !known {
				continue
			}
			if _, err := tx.Exec(ctx, fmt.Sprintf("INSERT INTO llm_cache.%s SELECT * FROM llm_cache_%s ON CONFLICT DO NOTHING",
				t.name, t.name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Prune implements Store. Contents are deleted with their turns.
func (p *Postgres) Prune(ctx context.Context, before time.Time) (int64, error) {
	if !p.ready.Load() {
		return 0, nil
	}
	tag, err := p.pool.Exec(ctx, "DELETE FROM llm_cache.turns WHERE at < $1", before)
	if err != nil {
		return 0, fmt.Errorf("audit: %w", err)
	}
	return tag.RowsAffected(), nil
}

// Each implements Source.
func (p *Postgres) Each(ctx context.Context, since time.Time, f func(*Record) error) error {
	return p.each(ctx, f, "at >= $1 ORDER BY at", since)
}

// Recent implements RecentSource.
func (p *Postgres) Recent(ctx context.Context, f Filter) ([]Turn, error) {
	condition, args := f.where(f.Since, func(n int) string { return fmt.Sprintf("$%d", n) })
	turns := []Turn{}
	err := p.each(ctx, func(r *Record) error {
		turns = append(turns, r.turn(whole))
		return nil
	}, condition, args...)
	return turns, err
}

func (p *Postgres) each(ctx context.Context, f func(*Record) error, condition string, args ...any) error {
	if err := p.prepare(ctx); err != nil {
		return err
	}
	rows, err := p.pool.Query(ctx, "SELECT "+columnList+" FROM llm_cache.turns WHERE "+condition, args...)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	defer rows.Close()
	var r Record
	targets := r.targets((*[16]byte)(&r.ID), &r.At)
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		r.ClientBilled.Output = r.Billed.Output // both bills have the same answer
		if err := f(&r); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// Content returns the content of a turn, nil if none was stored.
func (p *Postgres) Content(ctx context.Context, id ID) (*Content, error) {
	var prompt, answer []byte
	err := p.pool.QueryRow(ctx, "SELECT prompt, answer FROM llm_cache.contents WHERE turn = $1",
		[16]byte(id)).Scan(&prompt, &answer)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return unpacked(prompt, answer)
}

// Close implements Store.
func (p *Postgres) Close() error {
	p.pool.Close()
	return nil
}
