"""The words the rules know, by what they tell: English first, then German, Spanish and French."""


def words(text: str) -> frozenset[str]:
    """The words of a text, each once."""
    return frozenset(text.split())


CREATE = words(
    """create write make add build generate put save append implement produce draft
    erstelle erstell erstellen schreibe schreib schreiben mache mach baue bau füge erzeuge programmiere implementiere
    crea crear escribe escribir haz hacer añade agrega construye genera guarda programa
    crée créer écris écrire fais faire ajoute ajouter construis génère programme"""
)
"""Verbs of making: the imperative, and the infinitive where people ask with it."""

CHANGE = words(
    """change fix replace rename delete remove update edit correct refactor convert turn run install
    ändere ersetze repariere korrigiere lösche entferne aktualisiere tausche benenne starte
    cambia corrige arregla elimina borra reemplaza sustituye actualiza renombra ejecuta
    modifie remplace répare supprime efface renomme exécute"""
)
"""Verbs of changing what is there."""

VERBS = CREATE | CHANGE

OBJECTS = words(
    """file files script scripts program programs function functions class module test tests list checklist readme
    code cli command server api endpoint website page app application bug typo line word text config folder package
    datei skript programm funktion klasse liste zeile fehler seite archivo fichero función lista línea página error
    fichier fonction classe ligne bogue"""
)
"""Things specific enough to be made."""

ASSENT = words(
    """yes yep yeah ok okay sure fine good great go continue proceed please do agreed approved
    ja weiter gerne klar mach sí si dale adelante sigue vale oui vas-y d'accord"""
)
"""How an agreement begins."""

DESIGN_FIRST = words("plan design architect plane planifica diseña planifie conçois")
EXPLORE_FIRST = words("brainstorm ideas imagine ideen idées explore")
"""Words that say at a message's beginning what it is, whatever else stands in it."""

QUESTION = words(
    """what how why who when where which is are was were does did am
    wie warum wer wann wo welche ist sind qué cómo por cuándo dónde quién quoi comment pourquoi qui quand où"""
)
"""How a question begins that asks for an answer, not for work ("can you" asks for work)."""

POLITE = words("thanks thank please danke bitte gracias merci hi hello hey cheers")

FILLER = words(
    """a an the new file called named please empty blank in python script program text me for us and then also i want
    you to can could would eine neue datei leere bitte un nuevo archivo vacío fichier nouveau vide une el la le der die
    das lege legen markdown json document simple small short it my our now ok hey hi so just let's lets need is
    should be"""
)
"""Words around "create notes.txt" that ask for nothing more."""

COMMON = words(
    """about after again also another because before being between brainstorm could create design different does
    doing during every first from have having ideas into just like make many might more most much need other over
    plan please really should some something structure such than that their them then there these they thing things
    think this those through under until very want were what when where which while will with would write your
    architecture aber dass eine einen einer haben ideen könnten nicht oder sein sind über wenn werden wäre para como
    pour avec dans cette quel quelle sobre esta este idées let's lets"""
)
"""Words that are nobody's subject."""

SUFFIXES = words("c cfg cpp css csv go h html ini java js json log md py rb rs rst sh sql tex toml ts txt xml yaml yml")
"""Endings of files; a word with another one ("e.g.", "example.com") is no file."""
