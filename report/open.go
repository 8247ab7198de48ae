// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package report

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/audit"
)

// Open opens what an audit store has written, for reading: a PostgreSQL
// database by its connection string or URL, a file of JSON lines (.jsonl), or
// else a SQLite file.
func Open(name string) (audit.Source, error) {
	switch {
	case strings.HasPrefix(name, "postgres://"), strings.HasPrefix(name, "postgresql://"), strings.Contains(name, "=") && (strings.Contains(name, "dbname") || strings.Contains(name, "host=")):
		return audit.ReadPostgres(name)
	case strings.HasSuffix(name, ".jsonl"):
		return audit.ReadJSONL(name)
	}
	return audit.ReadSQLite(name)
}
