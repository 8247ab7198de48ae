// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
)

// Open opens the records of an audit store for reading: a PostgreSQL database by its connection
// string or URL, a file of JSON lines (.jsonl), or else a SQLite file.
func Open(name string) (audit.Source, error) {
	switch {
	case strings.HasPrefix(name, "postgres://"), strings.HasPrefix(name, "postgresql://"), strings.Contains(name, "=") &&
		(strings.Contains(name, "dbname") || strings.Contains(name, "host=")):
		return audit.ReadPostgres(name)
	case strings.HasSuffix(name, ".jsonl"):
		return audit.ReadJSONL(name)
	}
	return audit.ReadSQLite(name)
}
