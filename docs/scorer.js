// Search results: a heading or a name that is what was searched for comes before pages
// that only contain the words. The other numbers are Sphinx's defaults.
var Scorer = {
  score: ([, , anchor, , score]) => (anchor && score > 10 ? score + 30 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
