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

package audit

import (
	"embed"
	"fmt"
)

// Each file brings a schema one version further: 1.sql makes version 1 of an
// empty database. A file that was released is never changed.
//
//go:embed migrations
var migrations embed.FS

// latest is the version of the schema that this program reads and writes.
const latest = 7

// migration returns the statements that lead to a version of a schema.
func migration(dialect string, version int) (string, error) {
	b, err := migrations.ReadFile(fmt.Sprintf("migrations/%s/%d.sql", dialect, version))
	if err != nil {
		return "", fmt.Errorf("audit: no migration of %s to version %d: %w", dialect, version, err)
	}
	return string(b), nil
}

// newer is the error of a database that a later version of this program made.
func newer(version int) error {
	return fmt.Errorf("%w: it is of version %d, this program knows those up to %d", ErrNewer, version, latest)
}
