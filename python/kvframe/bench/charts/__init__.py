"""What results look like: one list of charts, drawn by a page of HTML and by matplotlib.

| room | purpose |
| --- | --- |
| `gathered` | results of several commands, put together by what they are of |
| `reading` | a directory, JSON, or a file of request rows, recognised by content |
| `paired` | rates of policies by size, and intervals of every difference |
| `chart` | what a chart is, before it is drawn |
| `hits` | charts of replays by cache size |
| `over_time` | charts of replays by request |
| `server` | charts of simulated servers |
| `listing` | all of these |
| `choose` | which policies are named, and which are grey |
| `page` | one HTML file: `document.html` with its style and scripts, and the numbers |
| `pictures` | PNG and SVG |
"""
