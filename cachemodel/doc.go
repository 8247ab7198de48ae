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

// Package cachemodel knows what prompt caches do and cost.
//
// [Lookup] gives the [Rules] of a model at a provider: when a prefix is
// written, how long it lives, what reading and writing cost. The figures are
// data (prices.txt), with the dates from which they hold and marks that grade
// their sources.
//
// A [Simulator] applies the rules to a stream of requests: it answers what each
// would have been billed, and refuses what the provider's API refuses, with the
// API's own words. It keeps hashes and counts, never contents, and runs on the
// clock of its callers.
package cachemodel
