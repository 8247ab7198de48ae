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

// Package translate carries requests, answers, errors and streams between the
// formats of package wire, so that a client of one API can talk to an upstream
// that speaks another.
//
// Requests go one way (request.go), answers the other: each format has one
// reader that turns its stream or its whole answer into neutral events, and one
// writer that turns neutral events into its own. Errors have their own path
// (error.go), because clients act on their status and their wording.
package translate
