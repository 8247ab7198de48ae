// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// Spoil makes it impossible to take snapshots of the session.
func (s *Session) Spoil() { s.conversations = append(s.conversations, nil) }
